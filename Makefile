# What a contributor runs. `make` alone lists it.

SHELL := /bin/sh
COMPOSE ?= $(shell if docker compose version >/dev/null 2>&1; then echo docker compose; else echo docker-compose; fi)
PROJECT := --project-name ration
ARGS ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the command: bin/ration
	cd cmd/ration && go build -trimpath -o ../../bin/ration .

.PHONY: demo
demo: build ## Limit a simulated fleet; needs only Go. ARGS="--redis URL" takes a Redis of yours
	bin/ration demo $(ARGS)

.PHONY: test
test: ## Test every module; with the race detector and Docker where they are
	@.ci/test.sh

.PHONY: soak
soak: ## Test for long: outages timed, load with faults, a million random operations against the exact model. For a quiet machine with Docker and redis-server
	cd integration && go test -tags soak -count=1 -timeout 45m -run '^TestSoak' -v .
	RATION_LEAST_OPERATIONS=1000000 go test -count=1 -timeout 2h -run '^TestModel$$' -rapid.checks=7000 -v .

.PHONY: check
check: bin/tools/stamp ## Format, vet, lint; go.mod, generated files and script digests current
	@.ci/check.sh

.PHONY: generate
generate: ## Assemble scripts/*.lua, scripts/SHA1SUMS and scripts_gen.go from scripts/parts
	go generate ./...

.PHONY: bench
bench: ## Measure beside other limiters, for a quarter of an hour: BENCHMARKS.md. ARGS="-rounds 9 -redis URL" chooses
	cd bench && go run . -write .. $(ARGS)

.PHONY: up
up: ## Start a Redis (port 7379) and a Redis Cluster (ports 7371 to 7376) in Docker
	$(COMPOSE) $(PROJECT) up -d
	@docker/wait.sh $$($(COMPOSE) $(PROJECT) ps -q)

.PHONY: down
down: ## Stop them; nothing is kept
	$(COMPOSE) $(PROJECT) down --volumes

.PHONY: smoke
smoke: build ## Decide on what `make up` started
	bin/ration demo --redis redis://127.0.0.1:7379 --duration 1s
	bin/ration demo --redis redis://127.0.0.1:7371 --duration 1s
	cd integration && RATION_CLUSTER_PORT=7371 go test -count=1 -run '^TestRunningClusterKeys$$' .

# The linters, built once for each state of tools/go.mod. golangci-lint takes minutes the first time.
bin/tools/stamp: tools/go.mod tools/go.sum
	cd tools && go build -o ../bin/tools/ tool
	@touch $@
