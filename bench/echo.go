package main

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/leaseway/leaseway/internal/ledger"
)

const (
	echoMethod = "/bench.Echo/Call"
	echoBytes  = 60 // about what an ask and its answer take
)

// echo is what gRPC alone costs: a call of as many bytes as one of a coordinator, without anything in them.
func echo() (granter, error) {
	ctx := context.Background()

	var listen net.ListenConfig

	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return granter{}, err
	}

	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: echoed}},
	}, nil)

	var serving sync.WaitGroup

	serving.Go(func() { _ = server.Serve(listener) }) // until Stop

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return granter{}, err
	}

	message, reply := &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{}

	return granter{
		acquire: func(batch *ledger.Batch) (*ledger.Answers, error) {
			if n := echoBytes * len(batch.Asks); len(message.GetValue()) != n {
				message.Value, batch.Reply.Keys = make([]byte, n), make([]ledger.KeyAnswer, len(batch.Asks))
			}

			if err := conn.Invoke(ctx, echoMethod, message, reply); err != nil {
				return nil, err
			}

			for i := range batch.Reply.Keys { // as if each had been granted what it wanted
				batch.Reply.Keys[i].Answer.Granted = batch.Asks[i].Ask.RaiseTo
			}

			return batch.Reply, nil
		},
		close: func() {
			_ = conn.Close()
			server.Stop()
			serving.Wait()
		},
	}, nil
}

// echoed is the server's side.
func echoed(
	_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor, //nolint:revive // gRPC's order
) (any, error) {
	message := &wrapperspb.BytesValue{}

	return message, decode(message)
}
