package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// program is the package under test, run by transcripts as a command of its own.
type program struct{ *testing.M }

// Run runs the tests, and fails when they leave a goroutine behind.
func (p program) Run() int {
	code := p.M.Run()
	if err := goleak.Find(redistest.DriverNaps()...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	return code
}

func TestMain(m *testing.M) {
	testscript.Main(program{m}, map[string]func(){
		"leaseway": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// The commands of the transcripts, beside leaseway itself:
//
//	serve NAME ARG...             runs leaseway serve on free ports; $NAME_HTTP, $NAME_GRPC and $NAME_KEY say where and how
//	halt NAME [SIGNAL [SIGNAL]]   signals it (TERM), waits for its end, and prints "exit STATUS"; its log is NAME.log. The second
//	                              signal is sent again and again
//	hangup NAME MESSAGE           sends it SIGHUP, and waits until it logs the message
//	http METHOD URL [BODY]        prints the status, the type and the body
//	hang ADDRESS                  begins a request, which the server then waits for
//
// $CERTIFICATES is a directory with some for a server here and for clients: see redistest.Certificates.
func TestTranscripts(t *testing.T) {
	certificates := filepath.Dir(redistest.NewCertificates(t).CA)

	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("CERTIFICATES", certificates)
			env.Values["servers"] = map[string]*process{}

			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serve": serveCommand, "halt": haltCommand, "hangup": hangupCommand, "http": httpCommand, "hang": hangCommand,
		},
	})
}

type process struct {
	cmd *exec.Cmd
	log string // path
	end chan struct{}
}

const patience = 30 * time.Second

func servers(ts *testscript.TestScript) map[string]*process {
	return ts.Value("servers").(map[string]*process)
}

func serveCommand(ts *testscript.TestScript, _ bool, args []string) {
	name := args[0]

	path, err := exec.LookPath("leaseway")
	ts.Check(err)

	p := &process{log: ts.MkAbs(name + ".log"), end: make(chan struct{})}

	log, err := os.Create(p.log)
	ts.Check(err)

	defer log.Close()

	p.cmd = exec.Command(path, append([]string{
		"serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--log-format", "json", "--data-dir", ts.MkAbs(name + ".data"),
	}, args[1:]...)...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = ts.Getenv("WORK"), []string{"HOME=" + ts.Getenv("WORK")}, log
	p.cmd.Env = append(p.cmd.Env, "GOCOVERDIR="+ts.Getenv("GOCOVERDIR"))
	ts.Check(p.cmd.Start())

	go func() {
		_ = p.cmd.Wait() // the exit status is in ProcessState
		close(p.end)
	}()

	ts.Defer(func() {
		_ = p.cmd.Process.Kill()
	})

	servers(ts)[name] = p

	deadline := time.Now().Add(patience)
	for {
		listening := logged(ts, p.log, "listening")
		if listening != nil {
			ts.Setenv(name+"_HTTP", listening["http"].(string))
			ts.Setenv(name+"_GRPC", listening["grpc"].(string))

			break
		}

		select {
		case <-p.end:
			ts.Fatalf("%s ended: %v\n%s", name, p.cmd.ProcessState, ts.ReadFile(p.log))
		case <-time.After(5 * time.Millisecond):
		}

		if time.Now().After(deadline) {
			ts.Fatalf("%s does not listen:\n%s", name, ts.ReadFile(p.log))
		}
	}

	if signed := logged(ts, p.log, "answers are signed; give the public key to holders with --coordinator-key"); signed != nil {
		ts.Setenv(name+"_KEY", signed["publicKey"].(string))
	}
}

// logged is the last line of a log with a message.
func logged(ts *testscript.TestScript, path, message string) map[string]any {
	var found map[string]any

	for text := range strings.Lines(ts.ReadFile(path)) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
			found = line
		}
	}

	return found
}

func haltCommand(ts *testscript.TestScript, _ bool, args []string) {
	p := servers(ts)[args[0]]

	signals := args[1:]
	if len(signals) == 0 {
		signals = []string{"TERM"}
	}

	for i, signal := range signals {
		number := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT}[signal]
		if i == 0 {
			ts.Check(p.cmd.Process.Signal(number))

			continue
		}

		// One that comes before the first was taken, or soon after it, is one with it.
		for range int(patience / (50 * time.Millisecond)) {
			_ = p.cmd.Process.Signal(number) // it may have ended

			select {
			case <-p.end:
			case <-time.After(50 * time.Millisecond):
				continue
			}

			break
		}
	}

	select {
	case <-p.end:
		fmt.Fprintf(ts.Stdout(), "exit %d\n", p.cmd.ProcessState.ExitCode())
	case <-time.After(patience):
		ts.Fatalf("%s did not end:\n%s", args[0], ts.ReadFile(p.log))
	}
}

func hangupCommand(ts *testscript.TestScript, _ bool, args []string) {
	p := servers(ts)[args[0]]
	ts.Check(p.cmd.Process.Signal(syscall.SIGHUP))

	for range int(patience / time.Millisecond) {
		if logged(ts, p.log, args[1]) != nil {
			return
		}

		<-time.After(time.Millisecond)
	}

	ts.Fatalf("%s did not log %q:\n%s", args[0], args[1], ts.ReadFile(p.log))
}

func httpCommand(ts *testscript.TestScript, _ bool, args []string) {
	body := ""
	if len(args) > 2 {
		body = args[2]
	}

	req, err := http.NewRequest(args[0], args[1], strings.NewReader(body))
	ts.Check(err)

	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

	resp, err := client.Do(req)
	ts.Check(err)

	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d %s\n%s\n", resp.StatusCode, resp.Header.Get("Content-Type"), text)
}

func hangCommand(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := net.Dial("tcp", args[0])
	ts.Check(err)
	ts.Defer(func() { conn.Close() })

	_, err = conn.Write([]byte("POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n" +
		"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n"))
	ts.Check(err)

	// Once it asks for the body, the request is under way.
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	ts.Check(err)

	if !strings.Contains(string(answer[:n]), "100 Continue") {
		ts.Fatalf("got %q", answer[:n])
	}
}

// Everything that a user can be shown is said in its help, with an example.
func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	for _, cmd := range commands() {
		if cmd.Hidden {
			continue // for another command, not for people
		}

		if cmd.Short == "" || cmd.Example == "" && !cmd.HasSubCommands() {
			t.Errorf("%s has no description or no example", cmd.Name())
		}
	}
}

// A flag that the documentation of another names must exist.
func TestHelpNamesOnlyFlagsThatExist(t *testing.T) {
	var out bytes.Buffer
	if code := Main([]string{"serve", "--help"}, nil, &out, &out); code != 0 {
		t.Fatalf("exit %d: %s", code, &out)
	}

	for _, name := range regexp.MustCompile(`--[a-z-]+`).FindAllString(out.String(), -1) {
		if newServe().Flags().Lookup(name[2:]) == nil && name != "--help" {
			t.Errorf("the help names %s, which does not exist", name)
		}
	}
}

func TestTranscriptsExist(t *testing.T) {
	found, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(found) < 5 {
		t.Errorf("only %d transcripts, %v: a moved directory would pass unseen", len(found), err)
	}
}
