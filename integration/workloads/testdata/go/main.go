// Command workload is built and run inside the sandbox.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

func sum(n int) int {
	parts := make(chan int, n)
	var wg sync.WaitGroup
	for i := range make([]struct{}, n) {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			parts <- i
		}(i)
	}
	wg.Wait()
	close(parts)
	total := 0
	for p := range parts {
		total += p
	}
	return total
}

func main() {
	fmt.Println("goroutines", sum(1000))
	out, err := exec.Command("echo", "from a child").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(string(out))
}
