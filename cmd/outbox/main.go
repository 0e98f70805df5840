package main

import (
	"os"

	"github.com/watermill-outbox/watermill-outbox/broker/all"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/command"
)

func main() { os.Exit(command.Main(all.Mux())) }
