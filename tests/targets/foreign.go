// SPDX-License-Identifier: Apache-2.0
//
// A Go program with cgo: goroutines call C that keeps books (foreign.c), which calls Go, which
// calls C. All the while others compute without a call, so that the scheduler and the collector
// must interrupt them by signals, grow and move their stacks, and make garbage; each checks what it
// has worked out.
package main

/*
#cgo LDFLAGS: -lforeign
#include <stdlib.h>
#include "tests/targets/foreign.h"
extern void goBack(void *context, uint64_t seed);
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	processors = 2
	workers    = 4
	spinners   = 3 // more than processors, because they never yield by themselves
	calls      = 20
	operations = 1000
)

var (
	stopping int32
	spins    [spinners]uint64
	loads    sync.WaitGroup
)

func wrong(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "WRONG: "+format+"\n", args...)
	os.Exit(2)
}

//export goBack
func goBack(context unsafe.Pointer, seed C.uint64_t) {
	climb(200)
	C.foreign_work(seed, operations/10, nil, nil)
}

// Recurses so deep that Go moves the goroutine to a larger stack.
func sum(depth int) int {
	var frame [64]byte
	frame[depth%64] = byte(depth)
	if depth == 0 {
		return 0
	}
	return sum(depth-1) + depth + int(frame[depth%64]) - depth%256
}

func climb(depth int) {
	if got := sum(depth); got != depth*(depth+1)/2 {
		wrong("the sum to %d is %d", depth, got)
	}
}

func work(seed uint64) {
	for i := uint64(0); i < calls; i++ {
		C.foreign_work(C.uint64_t(seed<<32+i*4711), operations,
			(*C.foreign_back_fn)(C.goBack), nil)
		climb(int(i) * 50)
	}
}

// Makes no call and no allocation: the scheduler can interrupt it only by a signal.
func spin(count *uint64) {
	defer loads.Done()
	x := uint64(1)
	for n := uint64(0); atomic.LoadInt32(&stopping) == 0; n++ {
		for j := 0; j < 1000; j++ {
			x = x*6364136223846793005 + 1442695040888963407
		}
		atomic.AddUint64(count, x>>63+1)
	}
}

func collect() {
	defer loads.Done()
	for atomic.LoadInt32(&stopping) == 0 {
		names := map[int]string{}
		for i := 0; i < 2000; i++ {
			names[i] = fmt.Sprint("name ", i)
		}
		text := C.CString(names[1234])
		if got := C.GoString(text); got != "name 1234" || len(names) != 2000 {
			wrong("%q of %d names", got, len(names))
		}
		C.free(unsafe.Pointer(text))
		climb(5000)
		runtime.GC()
	}
}

func collections() uint32 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NumGC
}

func phase(more bool) {
	var before [spinners]uint64
	for i := range spins {
		before[i] = atomic.LoadUint64(&spins[i])
	}
	collected := collections()
	if !more {
		C.foreign_begin()
	}
	var done sync.WaitGroup
	for i := 0; i < workers; i++ {
		done.Add(1)
		go func(seed uint64) {
			defer done.Done()
			work(seed)
		}(uint64(i + 1))
	}
	done.Wait()
	// Wait for another collection within the phase.
	for collections() == collected {
		runtime.Gosched()
	}
	for i := range spins {
		for atomic.LoadUint64(&spins[i]) == before[i] {
			runtime.Gosched()
		}
	}
	C.foreign_say()
}

func obey(command string) bool {
	switch {
	case command == "ping":
		fmt.Println("pong")
	case command == "go" || command == "more":
		phase(command == "more")
	case len(command) > 5 && command[:5] == "save ":
		path := C.CString(command[5:])
		C.foreign_save(path)
		C.free(unsafe.Pointer(path))
		fmt.Println("saved")
	default:
		return false
	}
	return true
}

func main() {
	runtime.GOMAXPROCS(processors)
	loads.Add(spinners + 1)
	for i := range spins {
		go spin(&spins[i])
	}
	go collect()
	time.Sleep(time.Millisecond) // the first timer makes the runtime open its epoll descriptor
	fmt.Println("ready", os.Getpid())
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() && obey(commands.Text()) {
	}
	atomic.StoreInt32(&stopping, 1)
	loads.Wait()
}
