package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ticks of the kernel's clock in a second, as /proc counts them.
const ticks = 100

// usedBy is the processor time that processes have used so far.
func usedBy(processes []*exec.Cmd) (sum time.Duration) {
	for _, p := range processes {
		sum += usedByPID(p.Process.Pid)
	}

	return sum
}

// usedByFamily is that of a process and its children; 0 for nil.
func usedByFamily(p *exec.Cmd) (sum time.Duration) {
	if p == nil {
		return 0
	}

	pid := strconv.Itoa(p.Process.Pid)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", pid, pid)) // as below

	for _, pid := range append(strings.Fields(string(children)), pid) {
		if n, err := strconv.Atoi(pid); err == nil {
			sum += usedByPID(n)
		}
	}

	return sum
}

func usedByPID(pid int) (sum time.Duration) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // one that is gone has used none since
	_, after, _ := strings.Cut(string(text), ") ")

	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}

	for _, field := range fields[11:13] { // utime and stime
		n, _ := strconv.Atoi(field)
		sum += time.Duration(n) * time.Second / ticks
	}

	return sum
}
