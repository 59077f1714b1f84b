// Command client is how to call an API that is limited: it waits when it is
// told to, for as long as it is told, and gives up when waiting does not help.
// Beside it stand retry.py and retry.ts, which do the same. docs/clients.md
// shows all three, and a test keeps page and files the same.
//
//	go run ./examples/client http://127.0.0.1:8000/v1/search
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client URL")
		os.Exit(2)
	}

	if err := get(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func get(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}

	var client Client

	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()

	fmt.Fprintln(os.Stdout, resp.Status, resp.Header.Get("Ratelimit"))

	return nil
}
