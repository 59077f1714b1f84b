package server

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/leaseway/leaseway/rule"
)

// load is what a server would run with; without HOME, environ is that of a user who has one.
func load(args, environ []string) (Config, error) {
	settings := NewSettings()
	if err := settings.Flags().Parse(args); err != nil {
		return Config{}, err
	}

	return settings.Load(append(slices.Clone(environ), "HOME=/home/ada"))
}

func TestFlagsWinOverEnvironmentOverFileOverDefaults(t *testing.T) {
	path := file(t, "listen: 127.0.0.1:1\ngrpcListen: 127.0.0.1:1\nname: of-file\nlogLevel: warn\n")

	got, err := load(
		[]string{"--config", path, "--listen", "127.0.0.1:3"},
		[]string{"LEASEWAY_LISTEN=127.0.0.1:2", "LEASEWAY_GRPC_LISTEN=127.0.0.1:2", "LEASEWAY_NAME="},
	)
	if err != nil {
		t.Fatal(err)
	}

	for _, row := range []struct{ what, got, want string }{
		{"flag over environment and file", got.Listen, "127.0.0.1:3"},
		{"environment over file", got.GRPCListen, "127.0.0.1:2"},
		{"file, since an empty variable is not set", got.Name, "of-file"},
		{"file over default", got.LogLevel, "warn"},
		{"default", got.LogFormat, "text"},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %q, want %q", row.what, row.got, row.want)
		}
	}
}

func TestKillsComeFromFlagEnvironmentAndFile(t *testing.T) {
	for _, row := range []struct {
		args, environ []string
	}{
		{args: []string{"--kill", "rule:a,limiter:worker"}},
		{args: []string{"--kill", "rule:a", "--kill", "limiter:worker"}},
		{environ: []string{"LEASEWAY_KILL=rule:a,limiter:worker"}},
		{args: []string{"--config", file(t, "kill: [rule:a, limiter:worker]")}},
	} {
		got, err := load(row.args, row.environ)
		if err != nil {
			t.Fatal(err)
		}

		if s := got.switches(); !s.Rules["a"].Off || !s.Limiters[rule.LimiterWorker].Off || s.All.Off {
			t.Errorf("%v %v: got %+v", row.args, row.environ, s)
		}
	}

	if _, err := load(nil, []string{"LEASEWAY_KILL=everything"}); err == nil || !strings.Contains(err.Error(), `--kill: "everything" is nothing that can be switched off`) {
		t.Errorf("got %v", err)
	}
}

func TestFileIsNamedByTheEnvironment(t *testing.T) {
	got, err := load(nil, []string{"LEASEWAY_CONFIG=" + file(t, "name: here")})
	if err != nil || got.Name != "here" {
		t.Errorf("got %q, %v", got.Name, err)
	}
}

func TestListsHaveTheSameMeaningEverywhere(t *testing.T) {
	want := []string{"127.0.0.1:1", "127.0.0.1:2"}

	for _, row := range []struct {
		source        string
		args, environ []string
	}{
		{"flags", []string{"--coordinator", want[0], "--coordinator", want[1]}, nil},
		{"one flag", []string{"--coordinator", want[0] + "," + want[1]}, nil},
		{"environment", nil, []string{"LEASEWAY_COORDINATOR=" + want[0] + "," + want[1]}},
		{"file", []string{"--config", file(t, "coordinator: ['127.0.0.1:1', '127.0.0.1:2']")}, nil},
	} {
		got, err := load(row.args, row.environ)
		if err != nil || !slices.Equal(got.Coordinators, want) {
			t.Errorf("%s: got %q, %v", row.source, got.Coordinators, err)
		}
	}
}

func TestDataDirectoryFollowsTheSpecificationOfXDG(t *testing.T) {
	for _, row := range []struct {
		environ []string
		want    string
	}{
		{[]string{"XDG_STATE_HOME=/state", "HOME=/home/ada"}, "/state/leaseway"},
		{[]string{"HOME=/home/ada"}, "/home/ada/.local/state/leaseway"},
		{[]string{"XDG_STATE_HOME=relative", "HOME=/home/ada"}, "/home/ada/.local/state/leaseway"},
		{[]string{"HOME=/home/ada", "LEASEWAY_DATA_DIR=/data"}, "/data"},
	} {
		got, err := load(nil, row.environ)
		if err != nil || got.DataDir != row.want {
			t.Errorf("%q: got %q, %v; want %q", row.environ, got.DataDir, err, row.want)
		}
	}
}

// Counts and keys must not end up where anyone may write, or wherever the server happens to be started.
func TestNoDataDirectoryIsGuessed(t *testing.T) {
	for _, environ := range [][]string{{"HOME="}, {"HOME=here"}, {"HOME=.", "XDG_STATE_HOME=state"}} {
		_, err := load(nil, environ)

		var wrong *UsageError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "--data-dir is not set") {
			t.Errorf("%q: got %v, want a usage error that names --data-dir", environ, err)
		}

		if got, err := load([]string{"--data-dir", "data"}, environ); err != nil || got.DataDir != "data" {
			t.Errorf("%q: got %q, %v, want what was set", environ, got.DataDir, err)
		}
	}
}

// A service called leaseway makes Kubernetes set these in every container of its namespace.
func TestVariablesOfOrchestratorsAreNoSettings(t *testing.T) {
	_, err := load(nil, []string{
		"LEASEWAY_SERVICE_HOST=10.0.0.1", "LEASEWAY_SERVICE_PORT=80", "LEASEWAY_SERVICE_PORT_GRPC=81", "LEASEWAY_PORT=tcp://10.0.0.1:80",
		"LEASEWAY_PORT_80_TCP=tcp://10.0.0.1:80", "LEASEWAY_PORT_80_TCP_ADDR=10.0.0.1", "LEASEWAY_COORDINATOR_SERVICE_HOST=10.0.0.1",
	})
	if err != nil {
		t.Error(err)
	}

	NewSettings().Flags().VisitAll(func(f *pflag.Flag) {
		if injected(variable(f.Name)) {
			t.Errorf("%s would be taken for a variable of Kubernetes, and ignored", variable(f.Name))
		}
	})
}

func TestWhatIsNoSettingIsRefusedWithTheFix(t *testing.T) {
	typo := file(t, "listen: 127.0.0.1:1\ngrpcListn: 127.0.0.1:2\nconfig: other.yaml\nlisten: 127.0.0.1:3\nname: {a: b}\n")
	off := []string{"--listen", "0.0.0.0:80"}

	for _, row := range []struct {
		args, environ []string
		want          []string // parts of the problems, one each
	}{
		{nil, []string{"LEASEWAY_FOO=x"}, []string{"LEASEWAY_FOO is not a setting: see leaseway serve --help"}},
		{nil, []string{"LEASEWAY_LISTN=x", "LEASEWAY_grpc_listen=y"}, []string{
			"LEASEWAY_LISTN is not a setting: did you mean LEASEWAY_LISTEN?",
			"LEASEWAY_grpc_listen is not a setting: did you mean LEASEWAY_GRPC_LISTEN?",
		}},
		{[]string{"--config", typo}, nil, []string{
			typo + ":2:1: grpcListn is not a setting: did you mean grpcListen?",
			typo + ":3:1: config is not a setting",
			typo + ":4:1: listen is set twice",
			typo + ":5:1: name is a mapping",
		}},
		{[]string{"--config", "/does/not/exist"}, nil, []string{"--config: open /does/not/exist"}},
		{[]string{"--config", file(t, "- a\n- b\n")}, nil, []string{":1: the settings are a mapping"}},
		{[]string{"--config", file(t, "listen: [a, b]")}, nil, []string{"listen takes one value"}},
		{[]string{"--config", file(t, "listen: {")}, nil, []string{"line 1"}},
		{nil, []string{"LEASEWAY_INSECURE=perhaps"}, []string{`LEASEWAY_INSECURE "perhaps" is neither true nor false`}},
		{nil, []string{"LEASEWAY_DEADLINE=20"}, []string{`LEASEWAY_DEADLINE "20" has no unit: write 20ms`}},
		{[]string{"--config", file(t, "name: n\ndeadline: 20\ninsecure: maybe\n")}, nil, []string{
			`:2:1: deadline "20" has no unit: write 20ms`, `:3:1: insecure "maybe" `,
		}},
		{[]string{"--rules", "", "--coordinator", "", "--config", file(t, "tokenFile: ''")}, nil, []string{
			"--rules is empty", "--coordinator is empty", "tokenFile is empty",
		}},
		{[]string{"--log-level", "loud", "--log-format", "xml"}, nil, []string{"--log-level", "--log-format"}},
		{[]string{"--deadline", "0s"}, nil, []string{"--deadline 0s is not between"}},
		{[]string{"--listen", "8080"}, nil, []string{`--listen "8080" is no address`}},
		{[]string{"--listen", "127.0.0.1:99999", "--grpc-listen", "127.0.0.1:"}, nil, []string{
			`--listen "127.0.0.1:99999" has no port`, `--grpc-listen "127.0.0.1:" has no port`,
		}},
		{off, nil, []string{"add --tls-cert and --tls-key and --token-file (or --tls-client-ca), or listen on 127.0.0.1, or"}},
		{[]string{"--grpc-listen", ":81"}, nil, []string{"--grpc-listen :81 can be reached from other machines"}},
		{append(off, "--token-file", "t"), nil, []string{"add --tls-cert and --tls-key, or"}},
		{append(off, "--tls-cert", "c", "--tls-key", "k"), nil, []string{"add --token-file (or --tls-client-ca), or"}},
		{[]string{"--tls-cert", "c"}, nil, []string{"--tls-cert and --tls-key need each other"}},
		{[]string{"--tls-client-ca", "c"}, nil, []string{"set --tls-cert and --tls-key too"}},
		{[]string{"--coordinator", "h:1", "--rules", "r"}, nil, []string{"--rules does not go with --coordinator"}},
		{[]string{"--coordinator", "h:1", "--signing-key-file", "r"}, nil, []string{"--signing-key-file does not go with --coordinator"}},
		{[]string{"--coordinator-key", "k"}, nil, []string{"--coordinator-key needs --coordinator"}},
	} {
		_, err := load(row.args, row.environ)

		var wrong *UsageError
		if !errors.As(err, &wrong) || len(wrong.Problems) != len(row.want) {
			t.Errorf("%q %q: got %v, want %d problems", row.args, row.environ, err, len(row.want))

			continue
		}

		for i, part := range row.want {
			if !strings.Contains(wrong.Problems[i], part) {
				t.Errorf("%q %q: got %q, which does not say %q", row.args, row.environ, wrong.Problems[i], part)
			}
		}
	}
}

func TestAddressesThatStrangersCannotReachNeedNothing(t *testing.T) {
	for _, args := range [][]string{
		{"--listen", "127.0.0.1:0"},
		{"--listen", "127.9.9.9:80"},
		{"--listen", "[::1]:80"},
		{"--listen", "localhost:80"},
		{"--listen", "0.0.0.0:80", "--insecure"},
		{"--listen", "0.0.0.0:80", "--tls-cert", "c", "--tls-key", "k", "--token-file", "t"},
		{"--grpc-listen", "[::]:80", "--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "ca"},
	} {
		if _, err := load(args, nil); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// Every name that the environment or the file could use leads to the flag that it is made from.
func TestEverySettingHasItsThreeNames(t *testing.T) {
	settings := NewSettings()

	settings.Flags().VisitAll(func(f *pflag.Flag) {
		values, err := settings.environment([]string{variable(f.Name) + "=x"})
		if err != nil || values[f.Name] != "x" {
			t.Errorf("--%s is not %s: %v", f.Name, variable(f.Name), err)
		}

		if f.Name != "config" && settings.flagOf(camel(f.Name)) != f.Name {
			t.Errorf("--%s is not %s", f.Name, camel(f.Name))
		}
	})
}

func TestStateOfTheTwoKindsIsKeptApart(t *testing.T) {
	coordinator, holder := Config{DataDir: "d"}, Config{DataDir: "d", Coordinators: []string{"h:1"}}
	if coordinator.stateDir() == holder.stateDir() {
		t.Error("a coordinator and a holder would overwrite each other's files")
	}

	if filepath.Dir(holder.stateDir()) != "d" {
		t.Errorf("%q is not in the data directory", holder.stateDir())
	}
}
