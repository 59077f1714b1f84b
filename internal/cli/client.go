package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/server"
)

// usualServer is asked unless something else is said: where leaseway serve listens unless something else is said.
const usualServer = "http://127.0.0.1:8080"

// environment is that of the process, as the server package reads it.
type environment []string

func environ() environment { return server.Environ() }

func (e environment) get(name string) string {
	for _, entry := range e {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}

	return ""
}

// remote is the flags of every command against a server.
type remote struct {
	context, output string
	entry           serverEntry
}

// addTo adds them to a command. forms says that it can answer in several.
func (r *remote) addTo(flags *pflag.FlagSet, forms bool) {
	flags.StringVar(&r.entry.Server, "server", "",
		"ask the server at this `URL`, also LEASEWAY_SERVER (default: that of the context in use, or "+usualServer+")")
	flags.StringVar(&r.entry.Token, "token", "", "the `token` to show; rather LEASEWAY_TOKEN or --token-file, which others cannot see")
	flags.StringVar(&r.entry.TokenFile, "token-file", "", "`file` with the token to show")
	flags.StringVar(&r.entry.CA, "ca", "", "`file` with the certificates that vouch for the server")
	r.entry.addCertificates(flags)
	flags.StringVar(&r.context, "context", "", "the `name` of a server that leaseway context has (default: the one in use)")

	if forms {
		flags.StringVarP(&r.output, "output", "o", outputTable, "`form` of the answer: table, json or yaml")
	}

	flags.SortFlags = false
}

// client is a server's admin API.
type client struct {
	entry serverEntry
	token string
	http  *http.Client
}

// connect finds out which server is meant. Flags go before the environment, and that before the context.
func (r *remote) connect(environ environment) (*client, error) {
	c := &client{entry: r.entry}
	if err := c.inContext(cmp.Or(r.context, environ.get("LEASEWAY_CONTEXT")), environ); err != nil {
		return nil, err
	}

	c.entry.Server = cmp.Or(c.entry.Server, environ.get("LEASEWAY_SERVER"), usualServer)

	switch {
	case c.entry.Token != "":
		c.token = c.entry.Token
	case c.entry.TokenFile != "":
		token, err := firstToken(c.entry.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}

		c.token = token
	default:
		c.token = environ.get("LEASEWAY_TOKEN")
	}

	return c.dial()
}

// inContext fills in what a context says and nothing goes before; "" is the one in use, if there is any.
func (c *client) inContext(name string, environ environment) error {
	path, err := contextsPath(environ)
	if err != nil {
		if name == "" {
			return nil // nobody has asked for one
		}

		return err
	}

	all, err := readContexts(path)
	if err != nil {
		return err
	}

	if name = cmp.Or(name, all.Current); name == "" {
		return nil
	}

	kept, err := all.entry(name)
	if err != nil {
		return err
	}

	// Its token is for its server, and for no other.
	if cmp.Or(c.entry.Server, environ.get("LEASEWAY_SERVER"), kept.Server) != kept.Server {
		return nil
	}

	if c.entry.Token == "" && c.entry.TokenFile == "" && environ.get("LEASEWAY_TOKEN") == "" {
		c.entry.Token, c.entry.TokenFile = kept.Token, kept.TokenFile
	}

	c.entry.Server, c.entry.CA = kept.Server, cmp.Or(c.entry.CA, kept.CA)

	if c.entry.ClientCert == "" && c.entry.ClientKey == "" {
		c.entry.ClientCert, c.entry.ClientKey = kept.ClientCert, kept.ClientKey
	}

	return nil
}

// dial checks the address, and makes what calls go through.
func (c *client) dial() (*client, error) {
	if _, err := c.address(); err != nil {
		return nil, err
	}

	caller, err := (&checkServer{ca: c.entry.CA, cert: c.entry.ClientCert, key: c.entry.ClientKey}).client()
	if err != nil {
		return nil, err
	}

	caller.Timeout = 0 // an import takes its time; others end with a signal
	c.http = caller

	return c, nil
}

// address is the server's URL.
func (c *client) address() (*url.URL, error) {
	secret := ""
	if c.token != "" {
		secret = "a token"
	}

	return (&checkServer{url: c.entry.Server, tokenFile: secret}).address()
}

// apiCall is one call of the API.
type apiCall struct {
	method string
	path   []string // segments
	query  url.Values
	kind   string // of the body; JSON unless said
	body   io.Reader
}

// adminCall calls something below /admin.
func adminCall(method string, path ...string) apiCall {
	return apiCall{method: method, path: append([]string{"admin"}, path...)}
}

// get reads something below /admin.
func get(path ...string) apiCall { return adminCall(http.MethodGet, path...) }

// with adds what the query says; empty values are left out.
func (a apiCall) with(pairs ...string) apiCall {
	query := url.Values{}

	maps.Copy(query, a.query)

	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}

	a.query = query

	return a
}

// sending adds a body of JSON.
func (a apiCall) sending(v any) apiCall {
	text, err := json.Marshal(v)
	if err != nil {
		text = nil // what commands send always encodes
	}

	a.body = bytes.NewReader(text)

	return a
}

// sendingText adds a body that is no JSON.
func (a apiCall) sendingText(kind string, body io.Reader) apiCall {
	a.kind, a.body = kind, body

	return a
}

// open sends a call and returns the answer, whose body the caller closes. A refusal is a *refused.
func (c *client) open(ctx context.Context, call apiCall) (*http.Response, error) {
	base, err := c.address()
	if err != nil {
		return nil, err
	}

	segments := make([]string, len(call.path))
	for i, segment := range call.path {
		segments[i] = url.PathEscape(segment)
	}

	target := base.JoinPath(segments...)
	target.RawQuery = call.query.Encode()

	req, err := http.NewRequestWithContext(ctx, call.method, target.String(), call.body)
	if err != nil {
		return nil, err
	}

	if call.body != nil {
		req.Header.Set("Content-Type", cmp.Or(call.kind, "application/json"))
	}

	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}

	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unasked(base, err)
	}

	if resp.StatusCode < http.StatusBadRequest && resp.StatusCode >= http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()

	no := &refused{server: base.Redacted(), status: resp.Status, shown: c.token != ""}

	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil || json.Unmarshal(text, &no.problem) != nil {
		no.problem = admin.Problem{} // of something else than a Leaseway server
		no.plain = strings.Contains(string(text), toTLS)
	}

	no.problem.Status = resp.StatusCode

	return nil, no
}

// toTLS is what net/http's servers answer who calls them over plain HTTP where they speak TLS.
const toTLS = "HTTP request to an HTTPS server"

// text sends a call and returns the answer.
func (c *client) text(ctx context.Context, call apiCall) ([]byte, error) {
	resp, err := c.open(ctx, call)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()

	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))

	switch {
	case err != nil:
		return nil, fmt.Errorf("read the server's answer: %w", err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the server's answer has more than %d bytes", maxAnswer)
	}

	return text, nil
}

// do sends a call and reads the answer into v.
func (c *client) do(ctx context.Context, call apiCall, v any) error {
	text, err := c.text(ctx, call)
	if err != nil {
		return err
	}

	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("the server's answer cannot be read (is a Leaseway server at that URL?): %w", err)
	}

	return nil
}

// remoteRun is what a command does against a server.
type remoteRun func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error

// run makes it fit for cobra.
func (r *remote) run(do remoteRun) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if _, err := formOf[any](cmp.Or(r.output, outputTable), nil); err != nil {
			return err
		}

		if err := aboveZero(cmd); err != nil {
			return err
		}

		c, err := r.connect(environ())
		if err != nil {
			return err
		}
		defer c.http.CloseIdleConnections()

		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()

		err = inTerms(cmd, do(ctx, cmd, c, args))

		if _, wrong := errors.AsType[*server.UsageError](err); err == nil || wrong {
			return err
		}

		return &failure{err}
	}
}

// show prints an answer in the form that was asked for.
func show[T any](cmd *cobra.Command, r *remote, v T, table func(io.Writer, T) error) error {
	write, err := formOf(r.output, table)
	if err != nil {
		return err
	}

	return write(cmd.OutOrStdout(), v)
}

// arguments refuses other arguments than those that are named.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("%s takes %s, and got %d arguments (see %[1]s --help)",
				cmd.CommandPath(), strings.Join(names, " "), len(args))
		}

		return nil
	}
}

// atLines has a refusal of a document point at the lines of the file.
func atLines(err error, path string) error {
	no, ok := errors.AsType[*refused](err)
	if !ok || len(no.problem.Errors) == 0 || no.problem.Errors[0].Line == 0 {
		return err
	}

	wrong := &server.UsageError{}

	for _, one := range no.problem.Errors {
		place := fmt.Sprintf("%s:%d", path, one.Line)
		if one.Column > 0 {
			place += fmt.Sprintf(":%d", one.Column)
		}

		text := strings.TrimPrefix(strings.TrimPrefix(one.Location, "body"), ".")
		if text != "" {
			text += ": "
		}

		text += one.Message
		if one.Fix != "" {
			text += " (" + one.Fix + ")"
		}

		wrong.Problems = append(wrong.Problems, place+": "+text)
	}

	return wrong
}
