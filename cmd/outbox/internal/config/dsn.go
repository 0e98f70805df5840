package config

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	errNoURL = errors.New("it can't be read as a URL; it must be of the form postgres://user@host:port/database, " +
		"with special characters of a password escaped, @ as %40 and / as %2F")
	errNoDSN = errors.New("it must be of the form postgres://user@host:port/database, or host=… user=… dbname=…")
)

// checkDSN says what is wrong with the address of a PostgreSQL, without quoting any of it: a part that can't be read may be
// a part of the password.
func checkDSN(dsn string) error {
	if strings.TrimSpace(dsn) == "" {
		return errNoDSN
	}
	isURL := strings.Contains(dsn, "://")
	if isURL {
		u, err := url.Parse(dsn)
		if err != nil {
			return errNoURL
		}
		if u.Scheme != "postgres" && u.Scheme != "postgresql" {
			return errNoDSN
		}
	}
	_, err := pgxpool.ParseConfig(dsn)
	if err == nil {
		return nil
	}
	// pgx's text begins with the address: only what it says of it is told, of which the values in brackets are left out.
	text := err.Error()
	if _, rest, ok := strings.Cut(text, "`: "); ok {
		text, _, _ = strings.Cut(rest, " (")
		if !isURL && text == "failed to parse as keyword/value" {
			return errNoDSN
		}
		return errors.New("PostgreSQL's client refuses it: " + text)
	}
	return errNoURL
}

var (
	userinfo  = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*://[^:/?#@]*):.*@`)
	natsToken = regexp.MustCompile(`(?i)^(\s*nats(?:\+tls)?://)[^:/?#@]*@`) // a user alone is a token to NATS
	passwords = regexp.MustCompile(`(?i)(\b[a-z_]*(?:password|secret|token)[a-z_]*\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]*)`)
)

const mask = "xxxxx"

// Redacted gives an address without its passwords, for people to read.
func Redacted(address string) string {
	address = userinfo.ReplaceAllString(address, "$1:"+mask+"@")
	address = natsToken.ReplaceAllString(address, "${1}"+mask+"@")
	return passwords.ReplaceAllString(address, "${1}"+mask)
}
