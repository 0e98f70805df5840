.DEFAULT_GOAL := help
FUZZTIME ?= 1m

.PHONY: help
help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: quickstart
quickstart: ## play the shop: the library at work, and what it promises counted
	go run ./examples/quickstart

.PHONY: test
test: ## run the tests
	go test ./...

.PHONY: race
race: ## run the tests with the race detector (needs a C compiler)
	go test -race ./...

.PHONY: services
services: ## start real brokers and a pooler for the tests (scripts/services --help)
	scripts/services up
	@echo 'Now: eval "$$(scripts/services env)" && go test ./...'

.PHONY: lint
lint: ## gofmt, vet and golangci-lint (v2, from the PATH)
	@test -z "$$(gofmt -l .)" || { echo "gofmt wants:"; gofmt -l .; exit 1; }
	go vet ./...
	golangci-lint run ./...

.PHONY: bench
bench: ## measure against watermill-sql and the bare database (make bench SCENARIO=forward-1ms)
	cd benchmarks && go run . $(if $(SCENARIO),-scenario $(SCENARIO))

.PHONY: fuzz
fuzz: ## fuzz each target for FUZZTIME (1m)
	@set -e; for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
			echo "$$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); \
		done; \
	done

.PHONY: ci
ci: ## all that CI checks; installs what it lacks
	bash .ci/run
