package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

const (
	workersEach    = 8       // goroutines that calls share, for each processor
	maxStreams     = 1_000   // calls in flight of one connection
	streamWindow   = 1 << 20 // bytes of one call on their way, and of all calls of a connection
	connWindow     = 4 << 20
	maxHeaderBytes = 16 << 10 // of one call
	connectTimeout = 10 * time.Second

	// How often a peer may ping, and how soon a silent one is taken for gone.
	minPing     = 5 * time.Second
	pingAfter   = 30 * time.Second
	pingTimeout = 10 * time.Second
)

// ServerConfig says what a Server offers, and to whom.
type ServerConfig struct {
	// Coordinator answers CoordinatorService; nil leaves the service out.
	Coordinator Coordinator
	// Signer signs answers and rules; nil leaves them unsigned.
	Signer *Signer
	// Decider answers CheckService; nil leaves the service out.
	Decider Decider
	// Tokens says whose bearer tokens are valid; each call but a health check must have one. nil lets everybody in.
	Tokens Admitter
	// Bare hears of each caller that Tokens lets in without one, but of holders, whose batches say it; nil for nobody.
	Bare func(peer netip.Addr)
	// TLS is the server's side of TLS; nil is plaintext.
	TLS *tls.Config
	// Logger hears of recovered panics; silent by default.
	Logger *slog.Logger
}

// Server is a gRPC server with health and reflection beside the services. It is
// a grpc.ServiceRegistrar, so that another door can stand on the same listener.
type Server struct {
	grpc   *grpc.Server
	health *health.Server
	guard  *guard
	queue  *turnstile
	holder *coordinatorHandler // nil without a coordinator
}

// NewServer returns a Server that listens nowhere yet: see Serve.
func NewServer(config ServerConfig) *Server {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}

	turnstile := newTurnstile()
	guard := &guard{tokens: config.Tokens, bare: config.Bare, queue: turnstile, logger: config.Logger}
	options := []grpc.ServerOption{
		grpc.InTapHandle(turnstile.tap),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.UnaryInterceptor(guard.recoverUnary),
		grpc.ChainStreamInterceptor(guard.recoverStream, guard.admitStream),
		grpc.MaxRecvMsgSize(MaxBatchBytes),
		// Calls find a stack that has grown already. When all workers are busy a call has a goroutine of its own: there are
		// more than processors, since many a call waits for the store.
		grpc.NumStreamWorkers(workersEach * uint32(runtime.GOMAXPROCS(0))),
		grpc.MaxSendMsgSize(maxRulesBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		// Fixed windows: to find out how large they should be costs a ping with every small call.
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
	}

	if config.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config.TLS)))
	}

	s := &Server{grpc: grpc.NewServer(options...), health: health.NewServer(), guard: guard, queue: turnstile}
	healthv1.RegisterHealthServer(s.grpc, s.health)

	if config.Coordinator != nil {
		s.holder = newCoordinatorHandler(config.Coordinator, config.Signer)
		s.grpc.RegisterService(s.holder.description(), s.holder)
	}

	if config.Decider != nil {
		leasewayv1.RegisterCheckServiceServer(s.grpc, checkHandler{decider: config.Decider})
	}

	reflection.Register(s.grpc)

	return s
}

// RegisterService adds a service of another door; call it before Serve.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	s.grpc.RegisterService(desc, implementation)
}

// Serve says to health checks that calls are welcome, and answers on listener until Stop; then it returns nil.
func (s *Server) Serve(listener net.Listener) error {
	s.SetServing(true)

	if err := s.grpc.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}

	return nil // stopped before it began
}

// SetServing says to health checks whether the server wants calls.
func (s *Server) SetServing(serving bool) {
	state := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthv1.HealthCheckResponse_SERVING
	}

	s.health.SetServingStatus("", state)

	for service := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(service, state)
	}
}

// Stop sends watchers elsewhere, takes no new calls and waits for those in
// flight; when ctx ends first it cuts them off. It returns when nothing of the server runs any more.
func (s *Server) Stop(ctx context.Context) {
	s.health.Shutdown()

	if s.holder != nil {
		s.holder.stop()
	}

	// Stop makes GracefulStop return, so that the goroutine does not outlive this call.
	cut := context.AfterFunc(ctx, s.grpc.Stop)
	defer cut()

	s.grpc.GracefulStop()
}

// ServerStats are counts since the start, but for Inside and Watchers, which are of now.
type ServerStats struct {
	Calls      int64 // unary calls and streams that began
	Panics     int64 // recovered
	Rejected   int64 // calls without a valid token
	Refused    int64 // batches that came while there was no room for them
	Inside     int64 // batches that are worked on, or wait for that, now
	Invalid    int64 // batches that could not be read
	Signatures int64 // answers and rule sets signed
	Watchers   int64 // streams of rules that are open
}

// Stats returns the present counts.
func (s *Server) Stats() ServerStats {
	stats := ServerStats{
		Calls: s.guard.calls.Load(), Panics: s.guard.panics.Load(), Rejected: s.guard.rejected.Load(),
		Refused: s.queue.refused.Load(), Inside: s.queue.inside.Load(),
	}

	if h := s.holder; h != nil {
		stats.Invalid, stats.Signatures, stats.Watchers = h.invalid.Load(), h.signatures.Load(), h.watchers.Load()
	}

	return stats
}
