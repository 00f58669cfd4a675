// Reads one HTTP/1.1 response per line of standard input (the request's method and base64), as Go's client does, and
// prints what it made of it: the status, the names of the header fields, and the body.
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
	"strings"
)

func read(method string, raw []byte) []any {
	request, _ := http.NewRequest(method, "http://a.test/x", nil)
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
		names := []string{}
		for name, values := range response.Header {
			for range values {
				names = append(names, name)
			}
		}
		return []any{response.StatusCode, names, base64.StdEncoding.EncodeToString(body)}
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		method, encoded, _ := strings.Cut(lines.Text(), " ")
		raw, _ := base64.StdEncoding.DecodeString(encoded)
		said, _ := json.Marshal(read(method, raw))
		fmt.Println(string(said))
	}
}
