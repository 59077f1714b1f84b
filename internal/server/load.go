package server

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/internal/spelling"
)

// envPrefix is what all of Leaseway's variables begin with.
const envPrefix = "LEASEWAY_"

// maxConfig is the size of the largest configuration file, in bytes.
const maxConfig = 1 << 20

// Settings are the ways to configure a server: flags, before the environment, before a file, before the defaults.
type Settings struct {
	config Config
	flags  *pflag.FlagSet
	file   string
}

// NewSettings returns the settings of a server with their defaults.
func NewSettings() *Settings {
	s := &Settings{}
	s.flags = s.config.flags()

	return s.withFile()
}

// NewProxySettings returns those of a proxy.
func NewProxySettings() *Settings {
	s := &Settings{config: Config{Proxy: &ProxyConfig{}}}
	s.flags = s.config.proxyFlags()

	return s.withFile()
}

func (s *Settings) withFile() *Settings {
	s.flags.StringVar(&s.file, "config", "", "YAML `file` with these settings, by the same names: grpcListen for --grpc-listen")

	return s
}

// Flags are the flags to parse before Load.
func (s *Settings) Flags() *pflag.FlagSet { return s.flags }

// Environ is the environment of the process, which nothing else reads.
func Environ() []string { return os.Environ() }

// Load adds what environ (in the form of os.Environ) and the configuration file say, and returns the whole. The error is
// a *UsageError that lists everything that is wrong.
func (s *Settings) Load(environ []string) (Config, error) {
	env, envErr := s.environment(environ)

	path := s.file
	if f := s.flags.Lookup("config"); !f.Changed {
		path = cmp.Or(env["config"], path)
	}

	file, fileErr := s.readFile(path)
	if err := problems(envErr, fileErr); err != nil {
		return Config{}, err
	}

	var errs []error

	s.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			errs = append(errs, empty("--"+f.Name, f))
		}

		if f.Changed || f.Name == "config" {
			return
		}

		value, set, place := env[f.Name], env[f.Name] != "", variable(f.Name)
		if !set {
			var entry fileEntry
			if entry, set = file[f.Name]; set {
				value, place = entry.text, entry.place
			}
		}

		if set {
			if err := f.Value.Set(value); err == nil {
				errs = append(errs, empty(place, f))
			} else {
				errs = append(errs, usage("%s %q %s", place, value, Unfit(f.Value.Type(), value)))
			}
		}
	})

	if err := problems(errs...); err != nil {
		return Config{}, err
	}

	s.fillIn(environ)

	return s.config, s.config.validate()
}

// empty refuses a setting that was set to nothing: in a script that is mostly a variable which is not set, and it would turn
// off the rules, or the tokens, that someone meant to have.
func empty(place string, f *pflag.Flag) error {
	if text := f.Value.String(); text == "" || text == "[]" {
		return usage("%s is empty: give it a value, or leave it out", place)
	}

	return nil
}

// fillIn sets the defaults that depend on the machine.
func (s *Settings) fillIn(environ []string) {
	c := &s.config

	if c.Name == "" {
		c.Name = "leaseway"
		if host, err := os.Hostname(); err == nil && host != "" {
			c.Name = host
		}
	}

	if c.DataDir == "" {
		// Relative paths do not count, as the XDG specification says: they would depend on where the server was started.
		switch state, home := lookup(environ, "XDG_STATE_HOME"), lookup(environ, "HOME"); {
		case filepath.IsAbs(state):
			c.DataDir = filepath.Join(state, "leaseway")
		case filepath.IsAbs(home):
			c.DataDir = filepath.Join(home, ".local", "state", "leaseway")
		}
	}
}

// environment is what the variables say, by flag name. An empty one counts as not set.
func (s *Settings) environment(environ []string) (map[string]string, error) {
	values := map[string]string{}

	var errs []error

	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || injected(name) || ofClients(name) {
			continue
		}

		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, envPrefix), "_", "-"))
		if s.flags.Lookup(flag) == nil || name != variable(flag) {
			errs = append(errs, usage("the environment variable %s is not a setting%s", name, s.didYouMean(name, variable)))

			continue
		}

		values[flag] = value
	}

	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })

	return values, problems(errs...)
}

// injected tells the variables that Kubernetes and Docker set in every container because some service is called leaseway.
func injected(name string) bool {
	return regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_[A-Z]+(_(PROTO|PORT|ADDR))?)$`).MatchString(name)
}

// ofClients tells the variables of the commands that call a server: a shell may have both.
func ofClients(name string) bool {
	return name == envPrefix+"SERVER" || name == envPrefix+"TOKEN" || name == envPrefix+"CONTEXT"
}

// fileEntry is one setting of the file, and where it stands.
type fileEntry struct{ text, place string }

// readFile is what the file says, by flag name; nothing when there is no path.
func (s *Settings) readFile(path string) (map[string]fileEntry, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no file says nothing, and a nil map reads as such
	}

	text, err := readBounded(path, maxConfig)
	if err != nil {
		return nil, unusable("--config", err)
	}

	var node yaml.Node

	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // as above
	} else if err != nil {
		return nil, usage("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}

	root := node.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, usage("%s:%d: the settings are a mapping, such as: listen: 127.0.0.1:8080", path, root.Line)
	}

	return s.readMapping(path, root)
}

func (s *Settings) readMapping(path string, root *yaml.Node) (map[string]fileEntry, error) {
	values := map[string]fileEntry{}

	var errs []error

	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		place := fmt.Sprintf("%s:%d:%d: %s", path, key.Line, key.Column, key.Value)

		flag := s.flagOf(key.Value)
		if flag == "" {
			errs = append(errs, usage("%s is not a setting%s", place, s.didYouMean(key.Value, camel)))

			continue
		}

		if _, twice := values[flag]; twice {
			errs = append(errs, usage("%s is set twice: keep one", place))
		}

		switch text, ok := scalars(value); {
		case value.Tag == "!!null": // a key without a value sets nothing
		case !ok:
			errs = append(errs, usage("%s is a mapping or a list of lists: write a value, or a list of values", place))
		case len(text) > 1 && s.flags.Lookup(flag).Value.Type() != "stringSlice":
			errs = append(errs, usage("%s takes one value", place))
		default:
			values[flag] = fileEntry{strings.Join(text, ","), place}
		}
	}

	return values, problems(errs...)
}

// scalars are the values of a node that is a scalar or a list of them.
func scalars(node *yaml.Node) ([]string, bool) {
	switch node.Kind {
	case yaml.ScalarNode:
		return []string{node.Value}, true
	case yaml.SequenceNode:
		list := make([]string, 0, len(node.Content))

		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, false
			}

			list = append(list, item.Value)
		}

		return list, true
	default:
		return nil, false
	}
}

// flagOf is the flag that a key of the file stands for; "" for none. The file cannot name another file.
func (s *Settings) flagOf(key string) string {
	found := ""

	s.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && camel(f.Name) == key {
			found = f.Name
		}
	})

	return found
}

// didYouMean is the closest name of a setting as this source writes it, as the end of a sentence.
func (s *Settings) didYouMean(got string, spell func(flag string) string) string {
	var names []string

	// The prefix that all variables share is no likeness.
	prefix := ""
	if strings.HasPrefix(got, envPrefix) {
		prefix = envPrefix
	}

	s.flags.VisitAll(func(f *pflag.Flag) { names = append(names, strings.TrimPrefix(spell(f.Name), prefix)) })

	if name := spelling.Closest(strings.TrimPrefix(got, prefix), names); name != "" {
		return ": did you mean " + prefix + name + "?"
	}

	return ": see leaseway " + s.flags.Name() + " --help"
}

// variable is a flag's name in the environment.
func variable(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// camel is a flag's name in the file.
func camel(flag string) string {
	words := strings.Split(flag, "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}

	return strings.Join(words, "")
}

func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}

	return ""
}
