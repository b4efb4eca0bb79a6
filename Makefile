# gobox: `make run` and `make test` do all the set-up themselves; `make help` lists the rest.

# Every go command sees the same tags, or tests would test another program than the one that is built:
# netgo, osusergo   no getaddrinfo and getpwnam, which a static glibc cannot do
# landlocktsync     go-landlock without libpsx; the ruleset is enforced by the thread that spawns the command
TAGS := netgo,osusergo,landlocktsync
export CGO_ENABLED := 1
export GOFLAGS := $(strip $(filter-out -tags=% -buildvcs=%,$(shell go env GOFLAGS 2>/dev/null)) -buildvcs=false -tags=$(TAGS))

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -linkmode external -extldflags -static -X main.version=$(VERSION)
BIN     := bin/gobox

# Tests and workloads find the program under test here.
export GOBOX_BIN := $(abspath $(BIN))

FUZZTIME ?= 2m
ROUNDS   ?= 200
NETROUNDS ?= 15
RACE     ?= ./sandbox/... ./record/... ./egress/... ./rlimit/...

.PHONY: help setup setup-build setup-test build run test test-kernels faults race kills soak lint bench fuzz clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building and testing need (apt; asks nothing when all is there)
	@sh scripts/setup.sh build test

setup-build:
	@sh scripts/setup.sh build

# Who may not install packages can still test what is there; the tests name what they skip for it.
setup-test: setup-build
	@sh scripts/setup.sh test || { [ -z "$$CI" ] && echo "make: going on without them" >&2; }

build: setup-build ## one static bin/gobox
	go build -trimpath -ldflags "$(LDFLAGS)" -o $(BIN) ./cmd/gobox
	@go run ./scripts/checkstatic $(BIN)
	@sh scripts/arm64.sh "$(LDFLAGS)"

run: build ## run a Python script in the sandbox and show what it could not do
	@sh examples/run.sh $(BIN)

test: setup-test build ## all tests; as root also as an ordinary user
	@go run ./scripts/testsum $(TESTFLAGS)

# An eighth of them: make faults PART=2/8
PART ?= all
faults: setup-test build ## let every single system call of gobox's own fail once (hours; PART=2/8 is an eighth)
	GOBOX_FAULTS=$(PART) go test -count=1 -timeout 6h -v -run TestFaults ./integration

race: setup-build ## the rooms with goroutines under Go's race detector
	go test -race -short $(RACE)

kills: setup-test build ## end gobox 2000 times at random moments, as root and as an ordinary user
	GOBOX_RACES=2000 go test -count=1 -timeout 6h -v -run TestStartKillRaces ./integration

soak: setup-test build ## put 10 GiB through gobox in every way, and see that it stays small (half an hour)
	GOBOX_SOAK=1 go test -count=1 -timeout 3h -v -run TestSoak ./integration

# One row on one kernel: make test-kernels KERNEL=6.1 ROW=F21
KERNEL ?= .*
test-kernels: setup-test build ## the isolation suite on Linux 6.1 and 6.12 in virtual machines; KERNEL=6.1 ROW=F21 is one row
	@GOBOX_VM_LONG=1 GOBOX_VM_RUN='$(ROW)' go run ./scripts/testsum -timeout 12h \
		-run 'TestKernels/^$(KERNEL)$$$(if $(ROW),,|TestHost|TestCgroup2|TestLimits)' $(TESTFLAGS) ./integration/vm

lint: setup-build ## gofmt, go vet, staticcheck, golangci-lint
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "gofmt: not formatted:"; echo "$$bad"; exit 1; }
	go vet ./...
	go tool -modfile=scripts/tools/staticcheck/go.mod staticcheck ./...
	go tool -modfile=scripts/tools/golangci/go.mod golangci-lint run

bench: build ## compare start-up with other tools and write docs/performance.md
	go run ./integration/bench -rounds $(ROUNDS) -write docs/performance.md $(BIN)
	@if [ "$$(id -u)" = 0 ]; then go run ./integration/bench -network $(NETROUNDS) docs/performance.md $(BIN); \
		else echo "bench: the network part needs root, which makes the interfaces" >&2; fi
	go run ./integration/bench/changes -write docs/performance.md $(BIN)

fuzz: setup-build ## run each fuzz test for FUZZTIME (2m)
	@sh scripts/fuzz.sh $(FUZZTIME)

clean: ## remove what was built
	rm -rf bin
