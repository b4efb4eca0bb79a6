use std::process::Command;
use std::sync::mpsc;
use std::thread;

fn sum(n: u64) -> u64 {
    let (send, receive) = mpsc::channel();
    for i in 0..n {
        let send = send.clone();
        thread::spawn(move || send.send(i).unwrap());
    }
    drop(send);
    receive.iter().sum()
}

fn main() {
    println!("threads {}", sum(16));
    let out = Command::new("echo").arg("from a child").output().unwrap();
    print!("{}", String::from_utf8_lossy(&out.stdout));
}

#[cfg(test)]
mod tests {
    #[test]
    fn sums() {
        assert_eq!(super::sum(4), 6);
    }
}
