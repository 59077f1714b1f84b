package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

const (
	redisPort    = "6379"
	sentinelPort = "26379"

	sentinelScheme = "+sentinel"
)

// ParseURL reads where Redis is, which is no URL where it has several hosts:
//
//	redis://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…             one server, or some nodes of a cluster
//	redis+sentinel://[USER:PASSWORD@]HOST[:PORT],…/MASTER        the sentinels that know where the master of this name is
//
// With rediss or rediss+sentinel all connections are encrypted, by the system's roots. User and
// password are those of Redis. The error says what to write, and never has the password in it.
func ParseURL(text string) (*Config, error) {
	config := &Config{}
	scheme, rest, ok := strings.Cut(text, "://")
	scheme, sentinel := strings.CutSuffix(scheme, sentinelScheme)

	switch {
	case ok && scheme == "redis":
	case ok && scheme == "rediss":
		config.TLS = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
	default:
		return nil, errors.New(
			"it begins with none of redis://, rediss://, redis+sentinel://, rediss+sentinel:// (write redis://HOST:PORT)")
	}

	rest, err := config.cutUser(rest)
	if err != nil {
		return nil, err
	}

	port := redisPort

	if sentinel {
		var master string

		if rest, master, _ = strings.Cut(rest, "/"); master == "" || strings.ContainsAny(master, "/?#") {
			return nil, errors.New("no name of a master after the sentinels: write redis+sentinel://HOST:PORT,HOST:PORT/MASTER")
		}

		config.Sentinel, port = &Sentinel{Master: master}, sentinelPort
	}

	rest = strings.TrimSuffix(rest, "/")
	if strings.ContainsAny(rest, "/?#") {
		return nil, errors.New("more than hosts: leave out what is behind them (there are no numbered databases here)")
	}

	for i, host := range strings.Split(rest, ",") {
		address, ok := addressOf(host, port)
		if !ok { // which is not shown: a password may be there by mistake
			return nil, fmt.Errorf("host %d is no HOST:PORT: write such as 10.0.0.1:%s,10.0.0.2:%s, "+
				"after USER:PASSWORD@ if there is a user", i+1, port, port)
		}

		config.Addresses = append(config.Addresses, address)
	}

	return config, nil
}

// cutUser takes USER:PASSWORD@ over, and returns what is behind it.
func (c *Config) cutUser(text string) (rest string, err error) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return text, nil
	}

	user, password, _ := strings.Cut(text[:at], ":")

	var errs [2]error

	c.Username, errs[0] = url.PathUnescape(user)
	c.Password, errs[1] = url.PathUnescape(password)

	if errs[0] != nil || errs[1] != nil {
		return "", errors.New("a percent sign in the user or password that begins no code: write it as %25")
	}

	return text[at+1:], nil
}

// addressOf returns host:port of HOST or HOST:PORT.
func addressOf(text, port string) (address string, ok bool) {
	host, given, err := net.SplitHostPort(text)
	if err != nil {
		host, given = strings.Trim(text, "[]"), port
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			host = ""
		}
	}

	if _, err := strconv.ParseUint(given, 10, 16); err != nil || host == "" {
		return "", false
	}

	return net.JoinHostPort(host, given), true
}
