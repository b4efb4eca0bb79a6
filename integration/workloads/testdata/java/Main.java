import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.ArrayList;
import java.util.List;

public class Main {
    record Point(int x, int y) {}

    public static void main(String[] args) throws Exception {
        var pool = Executors.newFixedThreadPool(4);
        List<Future<Integer>> parts = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            final int n = i;
            parts.add(pool.submit(() -> n * n));
        }
        int total = 0;
        for (var part : parts) {
            total += part.get();
        }
        pool.shutdown();
        System.out.println("threads " + total);

        Process child = new ProcessBuilder("echo", "from a child").start();
        try (var reader = new BufferedReader(new InputStreamReader(child.getInputStream()))) {
            System.out.println(reader.readLine() + " " + child.waitFor());
        }

        Path file = Files.createTempFile("x", ".txt");
        Files.writeString(file, "text");
        System.out.println("files " + Files.readString(file));
        Files.delete(file);

        byte[] block = new byte[64 << 20];
        System.gc();
        System.out.println("heap " + block.length + " " + new Point(1, 2));
    }
}
