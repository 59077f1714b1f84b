package load

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// CPU tells how much of the processor time that the process may use is used: of
// its cgroup where that has a quota (version 1 or 2), else of the whole machine.
// It needs Linux; elsewhere nothing is known. It is for one goroutine.
type CPU struct {
	root fs.FS
	used float64 // µs, at the last Read
	at   float64 // µs of processor time that there was until then
	from string  // what used and at were read from
}

// NewCPU returns a CPU that reads from root, the file system of the machine.
func NewCPU(root fs.FS) *CPU { return &CPU{root: root} }

// Read returns the share that was used since the last Read, from 0 on; NaN when
// it is not known, as at the first. now is in µs.
func (c *CPU) Read(now int64) float64 {
	used, at, from := c.look(now)
	spent, passed := used-c.used, at-c.at
	same := from == c.from
	c.used, c.at, c.from = used, at, from

	if !same || from == "" || passed <= 0 || spent < 0 {
		return math.NaN()
	}

	return spent / passed
}

// look returns how much time was used of how much, both µs since some beginning.
func (c *CPU) look(now int64) (used, at float64, from string) {
	if g, ok := c.cgroup(); ok {
		if usage, ok := g.usage(); ok {
			return usage, g.cores * float64(now), g.dir
		}
	}

	return c.machine()
}

// machine reads what all processors did since the machine's start.
func (c *CPU) machine() (used, at float64, from string) {
	const fields = 8 // user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of user and nice

	for line := range strings.Lines(c.text("proc/stat")) {
		words := strings.Fields(line)
		if len(words) < 1+5 || words[0] != "cpu" {
			continue
		}

		for i, word := range words[1:min(len(words), 1+fields)] {
			n, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return 0, 0, ""
			}

			at += n

			if i != 3 && i != 4 { // idle, and waiting for a disk
				used += n
			}
		}

		return used, at, "proc/stat"
	}

	return 0, 0, ""
}

// group is a cgroup that may use so many processors at once.
type group struct {
	cpu   *CPU
	dir   string
	cores float64
	v1    bool
}

// cgroup returns the narrowest quota on the way from the process's own group up to the root.
func (c *CPU) cgroup() (narrow group, ok bool) {
	for line := range strings.Lines(c.text("proc/self/cgroup")) {
		// "0::/a/b" in version 2, "4:cpu,cpuacct:/a/b" in version 1.
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, own, found := strings.Cut(rest, ":")

		var mount string

		switch {
		case !found:
			continue
		case controllers == "":
			mount = "sys/fs/cgroup"
		case strings.Contains(","+controllers+",", ",cpu,"):
			mount = "sys/fs/cgroup/" + controllers
		default:
			continue
		}

		for dir := path.Join(mount, own); strings.HasPrefix(dir+"/", mount+"/"); dir = path.Dir(dir) {
			g := group{cpu: c, dir: dir, v1: controllers != ""}
			if g.quota() && (!ok || g.cores < narrow.cores) {
				narrow, ok = g, true
			}
		}
	}

	return narrow, ok
}

// quota reads how many processors the group may use at once, and reports whether there is a bound.
func (g *group) quota() bool {
	quota, period, _ := strings.Cut(g.cpu.line(g.dir+"/cpu.max"), " ")
	if g.v1 {
		quota, period = g.cpu.line(g.dir+"/cpu.cfs_quota_us"), g.cpu.line(g.dir+"/cpu.cfs_period_us")
	}

	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	g.cores = q / p

	return err1 == nil && err2 == nil && q > 0 && p > 0
}

// usage reads how much processor time the group has used, µs.
func (g *group) usage() (used float64, ok bool) {
	if g.v1 {
		ns, err := strconv.ParseFloat(g.cpu.line(g.dir+"/cpuacct.usage"), 64)

		return ns / 1000, err == nil
	}

	for line := range strings.Lines(g.cpu.text(g.dir + "/cpu.stat")) {
		if value, found := strings.CutPrefix(line, "usage_usec "); found {
			used, err := strconv.ParseFloat(strings.TrimSpace(value), 64)

			return used, err == nil
		}
	}

	return 0, false
}

// line is the text of a file of one line; "" if it cannot be read.
func (c *CPU) line(name string) string { return strings.TrimSpace(c.text(name)) }

// text is the text of a small file; "" if it cannot be read.
func (c *CPU) text(name string) string {
	text, err := fs.ReadFile(c.root, name)
	if err != nil {
		return ""
	}

	return string(text)
}
