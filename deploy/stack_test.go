//go:build linux

package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// leaseways are the services that are this program.
func (c *composition) leaseways() []string {
	return []string{"coordinator-1", "coordinator-2", "coordinator-3", "agent"}
}

// stack is the services as processes, each at an address of its own of this machine, with ports that nobody has.
type stack struct {
	file    composition
	dir     string
	network string            // the first three bytes of all addresses
	ports   map[string]string // by those of the file
	hosts   []string          // numbered from 1
	started map[string]*proctest.Process
}

// host is the address of a service.
func (s *stack) host(name string) string {
	return fmt.Sprintf("%s.%d", s.network, 1+slices.Index(s.hosts, name))
}

// at is where a service listens that has a port in the file.
func (s *stack) at(name, port string) string { return net.JoinHostPort(s.host(name), s.ports[port]) }

// local has text of the file be about this machine.
func (s *stack) local(name, text string) string {
	for _, other := range s.hosts {
		text = regexp.MustCompile(`\b`+other+`:(\d)`).ReplaceAllString(text, s.host(other)+":$1")
	}

	for port, other := range s.ports {
		text = strings.ReplaceAll(text, ":"+port, ":"+other)
	}

	return strings.NewReplacer("0.0.0.0", s.host(name), "/run/secrets", s.dir).Replace(text)
}

// start runs the command of a service, or a program with it, and more arguments.
func (s *stack) start(t *testing.T, name string, argv ...string) *proctest.Process {
	t.Helper()

	for i := range argv {
		argv[i] = s.local(name, argv[i])
	}

	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{role + "=program", "PATH=" + os.Getenv("PATH"), "LEASEWAY_DATA_DIR=" + filepath.Join(s.dir, name)}
	s.started[name] = proctest.Start(t, cmd)

	return s.started[name]
}

// All of the compose file runs, without an engine: its commands are started as they are, with other addresses. Then a rule is written at
// one coordinator, holds at the agent, and Prometheus sees all of them.
func TestComposeRuns(t *testing.T) {
	t.Parallel()
	redistest.Needs(t)

	prometheus, openssl := needs(t, "prometheus"), needs(t, "openssl")
	s := &stack{
		file: readComposition(t), dir: t.TempDir(), network: fmt.Sprintf("127.%d.%d", 1+rand.IntN(250), 1+rand.IntN(250)),
		ports: map[string]string{}, started: map[string]*proctest.Process{},
	}

	for name := range s.file.Services {
		s.hosts = append(s.hosts, name)
	}

	slices.Sort(s.hosts)

	for _, port := range []string{"6379", "8080", "8081", "9090"} {
		_, s.ports[port], _ = net.SplitHostPort(freeAddress(t))
	}

	// As the file's first lines say.
	for _, line := range regexp.MustCompile(`(?m)^# +openssl .*$`).FindAllString(read(t, "docker/compose.yaml"), -1) {
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "#"), "#")
		line = strings.NewReplacer("openssl", openssl, "deploy/docker", s.dir).Replace(line)

		if out, err := exec.CommandContext(t.Context(), "sh", "-ec", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}

	s.secrets(t)
	s.cluster(t)
	s.coordinators(t)
	s.limits(t)
	s.watched(t, prometheus)
}

// secrets are mounted under their names.
func (s *stack) secrets(t *testing.T) {
	t.Helper()

	for name, secret := range s.file.Secrets {
		file, _ := secret.(map[string]any)["file"].(string)
		if err := os.Rename(filepath.Join(s.dir, file), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// cluster starts the Redis servers, and makes a cluster of them as its service does.
func (s *stack) cluster(t *testing.T) {
	t.Helper()

	for name, service := range s.file.Services {
		if !strings.HasPrefix(name, "redis-") {
			continue
		}

		dir := filepath.Join(s.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}

		// The image is built without protected mode.
		host := s.host(name)
		p := s.start(t, name, append(slices.Clone(service.Command), "--protected-mode", "no", "--port", s.ports["6379"], "--dir", dir,
			"--bind", host, "--bind-source-addr", host)...)
		p.Answers(t, s.at(name, "6379"))
	}

	// The names become addresses, which follow each other as the numbers do.
	before := slices.Index(s.hosts, "redis-1")
	p := s.start(t, "cluster", "sh", "-ec", strings.NewReplacer(
		"$$(getent hosts redis-$$n | cut -d' ' -f1)", fmt.Sprintf("%s.$((n+%d))", s.network, before),
		"redis-cli -h redis-1", "redis-cli -p "+s.ports["6379"]+" -h "+s.host("redis-1"), "$$", "$",
	).Replace(s.file.Services["cluster"].Command[2]))

	<-p.Ended

	if p.ExitCode() != 0 {
		t.Fatalf("no cluster was made:\n%s", p.Log)
	}
}

// coordinators starts all that is Leaseway.
func (s *stack) coordinators(t *testing.T) {
	t.Helper()

	database := postgrestest.New(t).Database(t)

	for _, name := range s.file.leaseways() {
		argv := slices.Clone(s.file.Services[name].Command)
		for i, arg := range argv {
			if strings.HasPrefix(arg, "--rule-store=") {
				argv[i] = "--rule-store=" + database
			}
		}

		p := s.start(t, name, append([]string{os.Args[0]}, argv...)...)
		p.Answers(t, s.at(name, "8080"))
		p.Eventually(t, name+" is ready", func() bool {
			resp, err := http.Get("http://" + s.at(name, "8080") + "/readyz")
			if err == nil {
				_ = resp.Body.Close()
			}

			return err == nil && resp.StatusCode == http.StatusOK
		})
	}
}

// limits: a rule that one coordinator is told holds for the agent, over all coordinators.
func (s *stack) limits(t *testing.T) {
	t.Helper()

	s.ask(t, "coordinator-1", "PUT /admin/rules/r", `{"limit": 2, "windowSec": 3600, "keyBy": "user", "scope": "/v1/x"}`)

	check := func(name string) (decision struct {
		Allowed bool   `json:"allowed"`
		Rule    string `json:"rule"`
	}) {
		text := s.ask(t, name, "POST /v1/check", `{"attributes": {"user": "ada", "path": "/v1/x"}}`)
		if err := json.Unmarshal([]byte(text), &decision); err != nil {
			t.Fatalf("%s: %v", text, err)
		}

		return decision
	}

	s.started["agent"].Eventually(t, "the rule is in force at the agent", func() bool { return check("agent").Rule == "r" })

	allowed := 1

	for _, name := range []string{"agent", "agent", "agent"} {
		if check(name).Allowed {
			allowed++
		}
	}

	if allowed != 2 {
		t.Errorf("%d of 4 passed a limit of 2", allowed)
	}

	s.started["coordinator-3"].Eventually(t, "another coordinator counts the same", func() bool { return !check("coordinator-3").Allowed })
}

// ask sends JSON to a method and path of a service, and returns what was answered with 2xx.
func (s *stack) ask(t *testing.T, name, what, body string) string {
	t.Helper()

	method, path, _ := strings.Cut(what, " ")

	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.at(name, "8080")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}

	r.Header.Set("Content-Type", "application/json")

	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = resp.Body.Close() }()

	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s of %s: %d %s, %v", what, name, resp.StatusCode, text, err)
	}

	return string(text)
}

// watched: Prometheus finds everything that its configuration names.
func (s *stack) watched(t *testing.T, prometheus string) {
	t.Helper()

	dir := filepath.Join(s.dir, "prometheus")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}

	config := strings.ReplaceAll(s.local("prometheus", read(t, "prometheus/prometheus.yaml")), "_interval: 10s", "_interval: 1s")
	write(t, filepath.Join(dir, "prometheus.yml"), config)
	write(t, filepath.Join(dir, "alerts.yaml"), read(t, "prometheus/alerts.yaml"))

	p := s.start(t, "prometheus", prometheus, "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", dir,
		"--web.listen-address", s.at("prometheus", "9090"))
	p.Answers(t, s.at("prometheus", "9090"))

	p.Eventually(t, "all targets are up", func() bool {
		resp, err := http.Get("http://" + s.at("prometheus", "9090") + "/api/v1/query?query=count(up==1)")
		if err != nil {
			return false
		}

		defer func() { _ = resp.Body.Close() }()

		text, err := io.ReadAll(resp.Body)

		return err == nil && strings.Contains(string(text), fmt.Sprintf(`,"%d"]`, len(s.file.leaseways())))
	})
}
