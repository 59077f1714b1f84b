package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

const (
	// A connection that broke is made again soon: the server that answers again must not wait for its callers.
	minReconnect = 50 * time.Millisecond
	maxReconnect = 300 * time.Millisecond
	connectTime  = time.Second // with TLS and all
	// A SYN that got lost is sent again by a new try, and not when the system thinks of it, a second later.
	synTime = 400 * time.Millisecond

	// helloSpread is the longest time from a new connection to the call that finds out whether it is of use, in a small fleet.
	helloSpread = 100 * time.Millisecond

	// What was sent is acknowledged in this time, or the connection is dead. The
	// system's own pauses between two tries grow beyond what anybody here would wait.
	clientPingTimeout = time.Second
	clientPingAfter   = 10 * time.Second
)

// replica is one coordinator as the client sees it.
type replica struct {
	address
	breaker
	*crowd

	conn   *grpc.ClientConn
	secure func() *tls.Config // nil where it is called in plaintext
	stub   leasewayv1.CoordinatorServiceClient

	calls, failures, late atomic.Int64
	watch                 atomic.Pointer[context.CancelFunc] // ends the stream of rules from here, if there is one
	trouble               atomic.Pointer[error]              // why the last call that failed did
}

// dial prepares a replica and begins to connect; it does not wait.
func dial(address address, config *Config, crowd *crowd) (*replica, error) {
	if !address.tls && !config.Insecure && !address.loopback() {
		return nil, fmt.Errorf("%s is plaintext over a network "+
			"(write grpcs:// and give the server a certificate, or allow it with leaseway.WithInsecure or --insecure)", address.url)
	}

	var secure func() *tls.Config

	transport := insecure.NewCredentials()

	if address.tls {
		if secure = config.TLS; secure == nil {
			secure = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
		}

		transport = renewed{TransportCredentials: credentials.NewTLS(secure()), config: secure}
	}

	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		// The client itself retries, elsewhere and within the caller's deadline.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(), // the environment is not read here, and a proxy would cost the time that a lease saves
		grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(connect),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minReconnect, Multiplier: 1.6, Jitter: 0.3, MaxDelay: maxReconnect},
			MinConnectTimeout: connectTime,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: clientPingAfter, Timeout: clientPingTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newCodec()), grpc.WaitForReady(false),
			grpc.MaxCallSendMsgSize(MaxBatchBytes), grpc.MaxCallRecvMsgSize(maxRulesBytes)),
	}

	if config.Token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{config.Token}))
	}

	conn, err := grpc.NewClient(address.target(), options...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address.url, err)
	}

	conn.Connect()

	return &replica{address: address, crowd: crowd, conn: conn, secure: secure, stub: leasewayv1.NewCoordinatorServiceClient(conn)}, nil
}

// renewed are TLS's credentials that are made anew for each connection.
type renewed struct {
	credentials.TransportCredentials

	config func() *tls.Config
}

// ClientHandshake is that of TLS as it is configured now.
func (r renewed) ClientHandshake(ctx context.Context, name string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(r.config()).ClientHandshake(ctx, name, conn)
}

// Clone returns r, which has no state.
func (r renewed) Clone() credentials.TransportCredentials { return r }

// connect opens a TCP connection to address, or gives up soon.
func connect(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: synTime}

	return dialer.DialContext(ctx, "tcp", address)
}

// dead reports whether a call at now would fail without reaching the replica.
// While an open breaker's connection is down there is nothing to probe: follow
// has it made again, and is told when it stands.
func (r *replica) dead(now time.Duration) bool {
	return r.refuses(now) || r.open() && r.conn.GetState() != connectivity.Ready
}

// follow keeps the connection up until ctx ends. One that is made again is the
// best sign that the replica is back: the breaker does not wait for its backoff
// then, but a little, so that the holders of a fleet do not all call at once.
// Nor do those of a large one to whom it was gone for so short a time that they hardly noticed.
func (r *replica) follow(ctx context.Context, now func() time.Duration) {
	for state := r.conn.GetState(); ; state = r.conn.GetState() {
		switch state {
		case connectivity.Idle: // it broke, and would stay so until the next call
			r.conn.Connect()
		case connectivity.Ready:
			switch after := r.arrive(helloSpread); {
			case r.open():
				r.hasten(now()+after, r.crowd.pauses().first)
			case r.large():
				r.spare(now() + after)
			}
		case connectivity.Connecting, connectivity.TransientFailure, connectivity.Shutdown:
		}

		if !r.conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// enter asks to make a call; see breaker.
func (r *replica) enter(now time.Duration) (ok, probe bool) {
	if r.dead(now) {
		return false, false
	}

	return r.breaker.enter(now)
}

// acquire makes one call and counts it. See blameless for the error.
func (r *replica) acquire(ctx context.Context, wire *batchWire) error {
	r.calls.Add(1)

	err := r.conn.Invoke(ctx, leasewayv1.CoordinatorService_Acquire_FullMethodName, wire, &wire.reply,
		grpc.StaticMethod(), grpc.MaxCallRecvMsgSize(maxAnswerBytes))

	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case ctx.Err() != nil, status.Code(err) == codes.DeadlineExceeded: // the server may notice first
		r.late.Add(1)
	}

	return &callError{r.url, err}
}

// blameless reports whether a call failed through no fault of the replica: the
// caller went away, or the batch itself cannot be read.
func blameless(err error) bool {
	return errors.Is(err, context.Canceled) || status.Code(err) == codes.InvalidArgument
}

// failed notes a failure. When it opens the breaker the rules are watched elsewhere too.
func (r *replica) failed(now time.Duration, probe bool) {
	r.failures.Add(1)

	if !r.fail(now, probe, r.pauses()) {
		return
	}

	if cancel := r.watch.Load(); cancel != nil {
		(*cancel)()
	}
}

// bearer sends its token with every call. Dial has made sure that the connection
// is TLS, stays on the machine, or is what the caller calls insecure.
type bearer struct{ token func() string }

// GetRequestMetadata returns the header with the token.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token := b.token()
	if token == "" {
		return nil, nil //nolint:nilnil // no header, and nothing wrong
	}

	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity returns false: see bearer.
func (b bearer) RequireTransportSecurity() bool { return false }
