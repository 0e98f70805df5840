package broker

import (
	"errors"
	"net"
	"net/url"
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
	if hosts != "" {
		u.Hosts = strings.Split(hosts, ",")
	}
	return u, nil
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

// Addresses gives the hosts, each with a port: its own or the default one. No hosts are localhost.
func (u *URL) Addresses(defaultPort string) ([]string, error) {
	hosts := u.Hosts
	if len(hosts) == 0 {
		hosts = []string{"localhost"}
	}
	addresses := make([]string, 0, len(hosts))
	for _, host := range hosts {
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
