//go:build linux

package deploy

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/internal/server"
)

// service is one of the compose file.
type service struct {
	Image   string   `yaml:"image"`
	Command []string `yaml:"command"`
	Secrets []string `yaml:"secrets"`
	Volumes []string `yaml:"volumes"`
}

// composition is the compose file, as far as a test can hold it against something.
type composition struct {
	Services map[string]service `yaml:"services"`
	Secrets  map[string]any     `yaml:"secrets"`
	Volumes  map[string]any     `yaml:"volumes"`
}

func readComposition(t *testing.T) (c composition) {
	t.Helper()

	if err := yaml.Unmarshal([]byte(read(t, "docker/compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}

	return c
}

// What the file names is there: secrets, volumes, hosts, settings.
func TestCompose(t *testing.T) {
	t.Parallel()

	file := readComposition(t)
	ours, secrets := 0, t.TempDir()
	write(t, filepath.Join(secrets, "postgres-password"), "secret")

	for name, service := range file.Services {
		for _, secret := range service.Secrets {
			if _, known := file.Secrets[secret]; !known {
				t.Errorf("%s: there is no secret %s", name, secret)
			}
		}

		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, known := file.Volumes[source]; !known && !isThere(filepath.Join("docker", source)) {
				t.Errorf("%s: there is no volume or file %s", name, source)
			}
		}

		if service.Image != "leaseway" {
			continue
		}

		ours++

		settings, args := server.NewSettings(), slices.Clone(service.Command[1:])
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "/run/secrets", secrets)
		}

		if err := settings.Flags().Parse(args); err != nil {
			t.Errorf("%s: %v", name, err)
		}

		if _, err := settings.Load([]string{"LEASEWAY_DATA_DIR=" + t.TempDir()}); err != nil {
			t.Errorf("%s: %v", name, err)
		}

		for _, arg := range service.Command {
			for _, host := range regexp.MustCompile(`(?:redis|coordinator)-\d+`).FindAllString(arg, -1) {
				if _, known := file.Services[host]; !known {
					t.Errorf("%s: there is no service %s", name, host)
				}
			}
		}
	}

	if ours != 4 {
		t.Errorf("there are %d services of Leaseway, want three coordinators and an agent", ours)
	}
}
