package load

import (
	"maps"
	"math"
	"testing"
	"testing/fstest"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

const second = 1_000_000

func TestCPUOfACgroup(t *testing.T) {
	t.Parallel()

	for name, row := range map[string]struct {
		files fstest.MapFS
		later fstest.MapFS // a second later
		want  float64
	}{
		"version 2, half of two processors": {
			files: fstest.MapFS{
				"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/cpu.max": file("200000 100000\n"),
				"sys/fs/cgroup/cpu.stat": file("usage_usec 5000000\nuser_usec 1\n"),
			},
			later: fstest.MapFS{"sys/fs/cgroup/cpu.stat": file("usage_usec 6000000\nuser_usec 1\n")},
			want:  0.5,
		},
		"version 2, the quota of a group above": {
			files: fstest.MapFS{
				"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/cpu.max": file("max 100000\n"),
				"sys/fs/cgroup/a/cpu.max":    file("50000 100000\n"),
				"sys/fs/cgroup/a/cpu.stat":   file("usage_usec 0\n"),
				"sys/fs/cgroup/a/b/cpu.stat": file("usage_usec 0\n"),
			},
			later: fstest.MapFS{"sys/fs/cgroup/a/cpu.stat": file("usage_usec 450000\n")},
			want:  0.9,
		},
		"version 1, in a container that does not see its path": {
			files: fstest.MapFS{
				"proc/self/cgroup":                            file("12:pids:/docker/x\n4:cpu,cpuacct:/docker/x\n"),
				"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":  file("100000\n"),
				"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": file("100000\n"),
				"sys/fs/cgroup/cpu,cpuacct/cpuacct.usage":     file("1000000000\n"),
			},
			later: fstest.MapFS{"sys/fs/cgroup/cpu,cpuacct/cpuacct.usage": file("1250000000\n")},
			want:  0.25,
		},
		"no quota: the machine": {
			files: fstest.MapFS{
				"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/cpu.max": file("max 100000\n"),
				"proc/stat": file("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"),
			},
			later: fstest.MapFS{"proc/stat": file("cpu  160 10 110 710 110 0 0 0 5 0\n")},
			want:  0.8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := NewCPU(row.files)
			if got := c.Read(7 * second); !math.IsNaN(got) {
				t.Errorf("the first look says %v", got)
			}

			maps.Copy(row.files, row.later)

			if got := c.Read(8 * second); math.Abs(got-row.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

func TestCPUThatCannotBeReadIsNotKnown(t *testing.T) {
	t.Parallel()

	files := fstest.MapFS{}
	c := NewCPU(files)

	for range 2 {
		if got := c.Read(second); !math.IsNaN(got) {
			t.Errorf("got %v of nothing", got)
		}
	}

	for _, text := range []string{"", "cpu", "cpu a b c d e f", "intr 1 2 3 4 5 6"} {
		files["proc/stat"] = file(text)

		if got := c.Read(2 * second); !math.IsNaN(got) {
			t.Errorf("got %v of %q", got, text)
		}
	}

	// A quota that comes between two looks makes another measure, of which one look says nothing.
	files["proc/stat"] = file("cpu 1 1 1 1 1 1 1 1")
	c.Read(3 * second)

	files["proc/self/cgroup"] = file("0::/\n")
	files["sys/fs/cgroup/cpu.max"] = file("200000 100000\n")
	files["sys/fs/cgroup/cpu.stat"] = file("usage_usec 5\n")

	if got := c.Read(4 * second); !math.IsNaN(got) {
		t.Errorf("got %v between two measures", got)
	}

	if got := c.Read(4 * second); !math.IsNaN(got) {
		t.Errorf("got %v without time", got)
	}

	files["sys/fs/cgroup/cpu.stat"] = file("usage_usec 1\n") // less than before
	if got := c.Read(5 * second); !math.IsNaN(got) {
		t.Errorf("got %v of a counter that went back", got)
	}
}
