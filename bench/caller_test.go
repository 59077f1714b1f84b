package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// A caller that takes anything for an answer would let a server win that gives none.
func TestCaller(t *testing.T) {
	for _, own := range []bool{false, true} {
		input, output := io.Pipe()
		lines, says := io.Pipe()
		served := make(chan error, 1)

		go func() { served <- beEcho(input, says, own) }()

		var address [64]byte

		n, err := lines.Read(address[:])
		if err != nil {
			t.Fatal(err)
		}

		where := strings.TrimSpace(string(address[:n]))

		c, err := dialCaller(where, echoMethod)
		if err != nil {
			t.Fatal(err)
		}

		do := echoCall()
		for i, request := range do.wire {
			answer, err := c.call(request)
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}

			if err := do.check(request, answer); err != nil || do.like(do.wire[(i+1)%len(do.wire)], answer) {
				t.Fatalf("call %d: %x came back as %x: %v", i, request, answer, err)
			}
		}

		if answer, err := c.call([]byte{0xff}); err == nil { // no message
			t.Errorf("a call that fails has the answer %x", answer)
		}

		other, err := dialCaller(where, "/bench.Echo/Other")
		if err != nil {
			t.Fatal(err)
		}

		if answer, err := other.call(do.wire[0]); err == nil {
			t.Errorf("a method that there is none of has the answer %x", answer)
		}

		other.close()

		if err := output.Close(); err != nil {
			t.Fatal(err)
		}

		if err := <-served; err != nil {
			t.Fatal(err)
		}

		if answer, err := c.call(do.wire[0]); err == nil {
			t.Errorf("a server that has ended answers %x", answer)
		}

		c.close()
	}
}

// What counts as an answer of the rate limit service.
func TestStatusIsRead(t *testing.T) {
	do := fullCall()
	if err := do.check(nil, []byte{1 << 3, 2}); err == nil || do.like(nil, []byte{1 << 3, 2}) {
		t.Error("OVER_LIMIT is taken for OK")
	}

	if err := do.check(nil, []byte{1 << 3, 1}); err == nil {
		t.Error("an answer without a status is taken for one")
	}

	if bytes.Equal(do.wire[0], do.wire[1]) {
		t.Error("two addresses are one")
	}
}
