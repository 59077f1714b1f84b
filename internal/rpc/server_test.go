package rpc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// raw returns a plain connection, for what a Client would not send.
func raw(t *testing.T, s *running) *grpc.ClientConn {
	t.Helper()

	conn, err := grpc.NewClient("dns:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = conn.Close() })

	return conn
}

// detail returns the first detail of an error of that type.
func detail[T any](err error) (found T) {
	for _, d := range status.Convert(err).Details() {
		if match, ok := d.(T); ok {
			return match
		}
	}

	return found
}

// broken is a coordinator with a bug at every entrance.
type broken struct{}

func (broken) Acquire(context.Context, *ledger.Batch) (*ledger.Answers, error) { panic("a bug") }

func (broken) WatchOverrides(context.Context, func([]string)) error { panic("a bug") }

func (broken) Watch(context.Context, uint64, func(*rule.Set) error) error { panic("a bug") }

func TestAPanicIsAnOutageOfOneCall(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: broken{}})
	api := leasewayv1.NewCoordinatorServiceClient(raw(t, s))

	for n := int64(1); n <= 3; n++ {
		_, err := api.Acquire(t.Context(), &leasewayv1.AcquireRequest{Holder: 1, Seq: 1})
		if info := detail[*errdetails.ErrorInfo](err); status.Code(err) != codes.Unavailable || info.GetReason() != reasonPanic || info.GetDomain() != domain {
			t.Fatalf("error %v with %v", err, info)
		}

		if strings.Contains(err.Error(), "a bug") {
			t.Errorf("error %v tells a caller what is in the code", err)
		}

		if got := s.Stats().Panics; got != n {
			t.Errorf("%d panics counted, want %d", got, n)
		}
	}

	stream, err := api.WatchRules(t.Context(), &leasewayv1.WatchRulesRequest{})
	if err == nil {
		_, err = stream.Recv()
	}

	if status.Code(err) != codes.Unavailable || s.Stats().Panics != 4 {
		t.Errorf("a stream's error %v, %d panics", err, s.Stats().Panics)
	}
}

func TestHostileRequestsAreRefusedWithTheField(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t))})
	api := leasewayv1.NewCoordinatorServiceClient(raw(t, s))

	for field, req := range map[string]*leasewayv1.AcquireRequest{
		"holder": {Seq: 1},
		"name":   {Holder: 1, Seq: 1, Name: strings.Repeat("n", 257)},
		"seq":    {Holder: 1},
		"asks":   {Holder: 1, Seq: 1, Asks: slices.Repeat([]*leasewayv1.KeyAsk{{}}, MaxAsks+1)},
	} {
		_, err := api.Acquire(t.Context(), req)

		violations := detail[*errdetails.BadRequest](err).GetFieldViolations()
		if status.Code(err) != codes.InvalidArgument || len(violations) != 1 || violations[0].GetField() != field {
			t.Errorf("%s: error %v, violations %v", field, err, violations)
		}
	}

	if got := s.Stats().Invalid; got != 4 {
		t.Errorf("%d counted as invalid, want 4", got)
	}

	large := &leasewayv1.AcquireRequest{Holder: 1, Seq: 1, Asks: []*leasewayv1.KeyAsk{{Key: make([]byte, MaxBatchBytes)}}}
	if _, err := api.Acquire(t.Context(), large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message over the bound: %v", err)
	}

	stream, err := api.WatchRules(t.Context(), &leasewayv1.WatchRulesRequest{Name: strings.Repeat("n", 257)})
	if err == nil {
		_, err = stream.Recv()
	}

	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a watcher's long name: %v", err)
	}

	// After all that it still answers.
	if _, err := api.Acquire(t.Context(), &leasewayv1.AcquireRequest{Holder: 1, Seq: 1, Asks: []*leasewayv1.KeyAsk{{Rule: "ten", Key: []byte{0xff}}}}); err != nil {
		t.Error(err)
	}
}

func TestWhoNeedsAToken(t *testing.T) {
	const token, other = "0123456789abcdef", "fedcba9876543210"

	tokens, err := ParseTokens([]byte(token + "\n" + other))
	if err != nil {
		t.Fatal(err)
	}

	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Decider: verdicts{}, Tokens: tokens})
	conn := raw(t, s)

	call := func(method string) func(context.Context) error {
		return func(ctx context.Context) error {
			switch method {
			case "Acquire":
				_, err := leasewayv1.NewCoordinatorServiceClient(conn).Acquire(ctx, &leasewayv1.AcquireRequest{Holder: 1, Seq: 1})

				return err
			case "WatchRules":
				stream, err := leasewayv1.NewCoordinatorServiceClient(conn).WatchRules(ctx, &leasewayv1.WatchRulesRequest{})
				if err == nil {
					_, err = stream.Recv()
				}

				return err
			case "Check":
				_, err := leasewayv1.NewCheckServiceClient(conn).Check(ctx, &leasewayv1.CheckRequest{})

				return err
			case "CheckRule":
				_, err := leasewayv1.NewCheckServiceClient(conn).CheckRule(ctx, &leasewayv1.CheckRuleRequest{Rule: "r"})

				return err
			case "reflection":
				stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
				if err == nil {
					_ = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
					_, err = stream.Recv()
				}

				return err
			default:
				_, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})

				return err
			}
		}
	}

	rejected := int64(0)

	for _, method := range []string{"Acquire", "WatchRules", "Check", "CheckRule", "reflection", "health"} {
		for header, admitted := range map[string]bool{
			"": false, "Bearer " + token: true, "bearer " + other: true, token: false, "Basic " + token: false,
			"Bearer": false, "Bearer " + token + "0": false, "Bearer " + token[:15]: false,
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if header != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", header)
			}

			want := codes.Unauthenticated
			if admitted || method == "health" {
				want = codes.OK
			} else {
				rejected++
			}

			if err := call(method)(ctx); status.Code(err) != want {
				t.Errorf("%s with %q: %v, want %v", method, header, err, want)
			}

			cancel()
		}
	}

	if got := s.Stats().Rejected; got != rejected {
		t.Errorf("%d rejected calls counted, want %d", got, rejected)
	}

	good := dialTo(t, func(c *Config) { c.Token, c.Keys, c.AllowUnsigned = func() string { return other }, nil, true }, s)
	acquire(t, good, (&calls{}).take("u1"))

	bad := dialTo(t, func(c *Config) {
		c.Token, c.Keys, c.AllowUnsigned = func() string { return token[:15] + "x" }, nil, true
	}, s)
	if _, err := bad.Acquire(t.Context(), (&calls{}).take("u1")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a client with a wrong token: %v", err)
	}
}

func TestHealthFollowsTheServer(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t))})
	api := healthv1.NewHealthClient(raw(t, s))

	check := func(service string) healthv1.HealthCheckResponse_ServingStatus {
		resp, err := api.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}

		return resp.GetStatus()
	}

	for _, service := range []string{"", leasewayv1.CoordinatorService_ServiceDesc.ServiceName} {
		eventually(t, "it serves", func() bool { return check(service) == healthv1.HealthCheckResponse_SERVING })
	}

	s.SetServing(false)

	if got := check(""); got != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("draining, it says %v", got)
	}
}

// authority makes certificates for the tests' servers and clients.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()

	a := &authority{t: t, pool: x509.NewCertPool()}
	pair := a.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)

	return a
}

// issue signs a certificate; the first signs itself.
func (a *authority) issue(template *x509.Certificate) tls.Certificate {
	a.t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}

	template.SerialNumber, template.Subject = big.NewInt(1), pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)

	parent, parentKey := a.cert, a.key
	if parent == nil {
		parent, parentKey = template, key
	}

	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		a.t.Fatal(err)
	}

	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}

	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestTLSOnBothSides(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	server := ca.issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	forClients := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	ours, theirs := ca.issue(forClients), stranger.issue(forClients)

	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1), TLS: &tls.Config{
		Certificates: []tls.Certificate{server}, ClientCAs: ca.pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}})

	for name, c := range map[string]struct {
		url  string
		tls  *tls.Config
		want Misfit
	}{
		"known on both sides":  {"grpcs://" + s.address, &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ours}}, 0},
		"TLS without a scheme": {s.address, &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ours}}, 0},
		"an unknown server":    {"grpcs://" + s.address, &tls.Config{RootCAs: stranger.pool, Certificates: []tls.Certificate{ours}}, MisfitAuthority},
		"the system's roots":   {"grpcs://" + s.address, nil, MisfitAuthority},
		"no client cert":       {"grpcs://" + s.address, &tls.Config{RootCAs: ca.pool}, MisfitCertificate},
		"an unknown client":    {"grpcs://" + s.address, &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{theirs}}, MisfitCertificate},
		"plaintext":            {"grpc://" + s.address, &tls.Config{RootCAs: ca.pool}, MisfitTLS},
		"another name": {
			"grpcs://" + s.address,
			&tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ours}, ServerName: "other.example"}, MisfitName,
		},
		"out of date": {
			"grpcs://" + s.address,
			&tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ours}, Time: func() time.Time { return time.Now().AddDate(1, 0, 0) }},
			MisfitExpired,
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := dialTo(t, func(config *Config) { config.URLs, config.TLS = []string{c.url}, steady(c.tls) }, s)

			_, err := client.Acquire(t.Context(), (&calls{}).take("u1"))
			if c.want == 0 && err != nil || c.want != 0 && status.Code(err) != codes.Unavailable {
				t.Errorf("error %v", err)
			}

			var misfit *MisfitError
			if err := client.Probe(t.Context()); errors.As(err, &misfit) != (c.want != 0) || misfit != nil && misfit.Misfit != c.want {
				t.Errorf("probed: %v, want %d", err, c.want)
			}
		})
	}
}

// Without a coordinator or a decider there is no such service, and no panic.
func TestServicesAreOnlyThoseThatAreOffered(t *testing.T) {
	conn := raw(t, serve(t, ServerConfig{}))

	if _, err := leasewayv1.NewCoordinatorServiceClient(conn).Acquire(t.Context(), &leasewayv1.AcquireRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("Acquire: %v", err)
	}

	if _, err := leasewayv1.NewCheckServiceClient(conn).Check(t.Context(), &leasewayv1.CheckRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("Check: %v", err)
	}
}

// exchanged are tokens that are exchanged for others while the server runs.
type exchanged struct{ atomic.Pointer[Tokens] }

// Allows is that of the present ones.
func (e *exchanged) Allows(token string) bool { return e.Load().Allows(token) }

func (e *exchanged) to(t *testing.T, token string) {
	t.Helper()

	tokens, err := ParseTokens([]byte(token))
	if err != nil {
		t.Fatal(err)
	}

	e.Store(tokens)
}

// A stream that was opened with a token hears nothing more when that is revoked.
func TestARevokedTokenEndsItsStream(t *testing.T) {
	const token, other = "0123456789abcdef", "fedcba9876543210"

	tokens, book := &exchanged{}, newBook(t)
	tokens.to(t, token)

	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), book), Tokens: tokens})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)

	stream, err := leasewayv1.NewCoordinatorServiceClient(raw(t, s)).WatchRules(ctx, &leasewayv1.WatchRulesRequest{})
	if err == nil {
		_, err = stream.Recv()
	}

	if err != nil {
		t.Fatal(err)
	}

	tokens.to(t, other)

	if _, err := book.Apply(parse(t, "rules: [{id: new, limit: 1, window: 1s}]")); err != nil {
		t.Fatal(err)
	}

	if rules, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v, %v: want the stream to end", rules, err)
	}
}
