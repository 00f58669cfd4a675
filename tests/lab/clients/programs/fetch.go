// Fetches one URL as most programs in Go do.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	fmt.Println(answer.Proto, answer.Status, string(body), err)
	if answer.StatusCode != http.StatusOK {
		os.Exit(1)
	}
}
