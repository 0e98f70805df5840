package broker

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// URL is a broker's address, taken apart:
//
//	scheme://user:password@host:port,host:port/path?parameter=value
type URL struct {
	Scheme, User, Password string
	// Hosts are as they were written, each with or without a port. Empty if there are none.
	Hosts []string
	// Path is without its leading slash.
	Path  string
	query url.Values
}

// ParseURL takes a URL apart. Its errors are *URLErrors and never contain the URL, which may have a password.
func ParseURL(raw string) (*URL, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(raw), "://")
	if !ok || scheme == "" {
		return nil, &URLError{"url", "it must be of the form scheme://host:port, as kafka://localhost:9092"}
	}
	// net/url knows one host only: the others are put aside while it reads the rest.
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	// What looks like a host may be the beginning of a password with such a character: nobody must get to print it.
	if strings.ContainsAny(tail, "@#") {
		return nil, &URLError{"url", "it has an @ or # behind the hosts; special characters of a password must be escaped: / as %2F, # as %23, ? as %3F, @ as %40"}
	}
	user, hosts := "", authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, hosts = authority[:at+1], authority[at+1:]
	}
	parsed, err := url.Parse(strings.ToLower(scheme) + "://" + user + "host" + tail)
	if err != nil {
		return nil, &URLError{"url", withoutURL(err) + "; special characters of a password must be escaped, @ as %40"}
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return nil, &URLError{"url", "its parameters can't be read; they are of the form name=value&name=value"}
	}
	u := &URL{Scheme: parsed.Scheme, User: parsed.User.Username(), Path: strings.TrimPrefix(parsed.Path, "/"), query: query}
	u.Password, _ = parsed.User.Password()
	if hosts == "" {
		return u, nil
	}
	u.Hosts = strings.Split(hosts, ",")
	for _, host := range u.Hosts {
		if !validPort(host) {
			return nil, &URLError{"host", "a port must be a number from 1 to 65535; a : in a user's name or a password must be escaped as %3A"}
		}
	}
	return u, nil
}

// validPort says whether a host has none, or one that can be.
func validPort(host string) bool {
	colon := strings.LastIndex(host, ":")
	if colon < 0 || strings.HasSuffix(host, "]") {
		return true
	}
	port, err := strconv.ParseUint(host[colon+1:], 10, 16)
	return err == nil && port > 0
}

// withoutURL gives what net/url has against a URL, without the URL.
func withoutURL(err error) string {
	var parse *url.Error
	if errors.As(err, &parse) {
		err = parse.Err
	}
	var escape url.EscapeError
	if errors.As(err, &escape) {
		return "it has an invalid escape"
	}
	return "it can't be read"
}

// Addresses gives the hosts, each with a port: its own or the default one. There must be a host: one that is missing is more
// often a variable that was not set than a wish for localhost.
func (u *URL) Addresses(defaultPort string) ([]string, error) {
	if len(u.Hosts) == 0 {
		return nil, &URLError{"host", "there is none; it must be as in " + u.Scheme + "://localhost:" + defaultPort}
	}
	addresses := make([]string, 0, len(u.Hosts))
	for _, host := range u.Hosts {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port, err = net.SplitHostPort(host + ":" + defaultPort)
		}
		if err != nil || name == "" || port == "" {
			return nil, &URLError{"host", "an address must be of the form host:port, an IPv6 one of the form [::1]:port"}
		}
		addresses = append(addresses, net.JoinHostPort(name, port))
	}
	return addresses, nil
}
