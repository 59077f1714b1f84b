package leasewaygrpc_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewaygrpc"
	"github.com/leaseway/leaseway/rule"
)

func Example() {
	rules, err := rule.Parse("rules.yaml", []byte(`
rules: [{id: echo-per-address, scope: /test.Echo/Echo, keyBy: ip, limit: 1, window: 1h}]
`))
	if err != nil {
		panic(err)
	}

	limiter, err := leaseway.Embedded(rules)
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())

	limits := leasewaygrpc.New(limiter)
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limits.UnaryServer),
		grpc.ChainStreamInterceptor(limits.StreamServer),
	)
	server.RegisterService(&service, echo{})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}

	go func() { _ = server.Serve(listener) }()

	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()

	for range 2 {
		err := conn.Invoke(context.Background(), "/test.Echo/Echo", wrapperspb.String("hello"), &wrapperspb.StringValue{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}
