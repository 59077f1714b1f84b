package envoyrls

import (
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
)

type (
	grpcInfo    = grpc.UnaryServerInfo
	grpcHandler = grpc.UnaryHandler
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
