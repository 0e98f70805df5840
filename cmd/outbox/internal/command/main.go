package command

import (
	"os"

	"github.com/mattn/go-isatty"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Main runs the command of this process, with the brokers that it can open, and gives the exit code.
func Main(brokers *broker.Mux) int {
	ctx, stop := untilSignalled()
	defer stop()
	return Program{
		Args: os.Args[1:], Environ: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Asks: terminal(os.Stdin) && terminal(os.Stderr), Live: terminal(os.Stderr),
		Brokers: brokers,
	}.Run(ctx)
}

func terminal(file *os.File) bool {
	return isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd())
}
