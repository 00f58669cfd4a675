// A unary call, and a stream whose next message waits for the answer to the one before.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// bytesAsTheyAre needs no generated code.
type bytesAsTheyAre struct{}

func (bytesAsTheyAre) Marshal(message any) ([]byte, error)        { return message.([]byte), nil }
func (bytesAsTheyAre) Unmarshal(data []byte, message any) error { *message.(*string) = string(data); return nil }
func (bytesAsTheyAre) Name() string                               { return "bytes" }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	codec := grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesAsTheyAre{}))
	secured := grpc.WithTransportCredentials(credentials.NewTLS(nil))
	channel, err := grpc.NewClient(os.Args[1]+":443", codec, secured)
	must(err)
	var said string
	must(channel.Invoke(ctx, "/echo.Echo/Say", []byte("hello"), &said))
	fmt.Println(said)
	talk, err := channel.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/echo.Echo/Talk")
	must(err)
	for number := range 3 {
		must(talk.SendMsg([]byte(fmt.Sprint(number + 1))))
		must(talk.RecvMsg(&said))
		fmt.Println("streamed", said)
	}
	must(talk.CloseSend())
}
