// Reads one HTTP/1.1 response per line of standard input (base64), as Go's client does, and prints what it made of it.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

func read(raw []byte) []any {
	request, _ := http.NewRequest("GET", "http://a.test/x", nil)
	stream := bufio.NewReader(bytes.NewReader(raw))
	for {
		response, err := http.ReadResponse(stream, request)
		if err != nil {
			return nil
		}
		if response.StatusCode >= 100 && response.StatusCode < 200 && response.StatusCode != 101 {
			continue
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode == 101 {
			return nil
		}
		return []any{response.StatusCode, base64.StdEncoding.EncodeToString(body)}
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		raw, _ := base64.StdEncoding.DecodeString(lines.Text())
		said, _ := json.Marshal(read(raw))
		fmt.Println(string(said))
	}
}
