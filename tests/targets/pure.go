// SPDX-License-Identifier: Apache-2.0
//
// A Go program without cgo, and so without a C library: nothing that heaptap records.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	time.Sleep(time.Millisecond) // the first timer makes the runtime open its epoll descriptor
	fmt.Println("ready", os.Getpid())
	for commands := bufio.NewScanner(os.Stdin); commands.Scan() && commands.Text() == "ping"; {
		fmt.Println("pong")
	}
}
