//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package pgtest

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func tempBase() string { return "" }
