# Builds and checks podfit. Requires Go and git, and a C compiler for the race detector. Other tools come from tools/go.mod.
# "make" lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The version is the output of git describe. The go command does not add version control information (-buildvcs=false).
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
export GOFLAGS := -buildvcs=false $(GOFLAGS)

# The modules with tests, and all modules.
TESTED := . $(patsubst %/go.mod,%,$(wildcard tools/*/go.mod localcluster/go.mod test/*/go.mod))
MODULES := $(TESTED) $(patsubst %/go.mod,%,$(wildcard localcluster/*/go.mod tools/go.mod))
TOOL := go tool -modfile=tools/go.mod
STEP := tools/step
LOG := .cache/test.log

# The timeout for the tests of a module, and additional flags for go test, for example: make test TESTFLAGS=-v
TESTTIMEOUT ?= 40m
TESTFLAGS ?=
# The time for each fuzz test, and the benchmarks and packages for make microbench.
FUZZTIME ?= 30s
BENCH ?= .
BENCHPKG ?= ./...

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/podfit, a static binary, and bin/THIRD-PARTY-LICENSES.txt, the licenses of linked modules
	@mkdir -p bin
	@tools/licenses bin/THIRD-PARTY-LICENSES.txt
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X podfit.dev/podfit/internal/app/process.Version=$(VERSION)' -o bin/podfit .

# Images have the time of the commit, so that the same commit gives the same bytes.
PLATFORMS ?= linux/amd64,linux/arm64,linux/arm/v7,linux/ppc64le,linux/s390x

.PHONY: images
images: ## Build dist/images, an OCI layout with podfit's images, without Docker; PLATFORMS=linux/amd64 for one architecture
	@$(STEP) "images for $(PLATFORMS)" go -C tools/image run . --root=$(CURDIR) --out=$(CURDIR)/dist/images --version=$(VERSION) \
		--epoch=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} --platforms=$(PLATFORMS)

# The version is a tag, or else that of the chart with the commit. RELEASEPLATFORMS selects some of the platforms. The demo archives need
# Kubernetes, which takes 12 minutes of CPU time for each of two architectures the first time.
RELEASEPLATFORMS ?=

.PHONY: release
release: ## Build dist: archives, demo archives, images, chart, manifests, man pages, completions, bills of materials, checksums
	@$(STEP) "release $(VERSION)" go -C tools/release run . --root=$(CURDIR) --out=$(CURDIR)/dist --version=$(VERSION) \
		--epoch=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(if $(RELEASEPLATFORMS),--platforms=$(RELEASEPLATFORMS))

# On several processors, timers of a synctest bubble can crash the race detector (golang/go#78156). It finds races on one processor, too.
RACE := -race -cpu 1
# The packages of the root module whose code or tests have goroutines.
CONCURRENT = $(shell tools/concurrent)
# The end-to-end tests of make test. E2E=all runs all of them, in groups with a cluster each.
E2E ?= TestPodfit_undisturbedCluster_sizesPods
# The modules whose tests run once a night: they build images and archives, and drive a browser.
NIGHTLY := tools/image tools/release test/web

# run_tests LOG MODULES: the tests that link the same packages as bin/podfit are built with its flags, so that these packages are compiled once.
# Results are not cached if go test does not see what they depend on: podfit, the pages of documentation, and deploy/ are outside of these modules.
define run_tests
	mkdir -p $(dir $(1)); : > $(1); failed=0; for module in $(2); do \
		env=; flags=; \
		case "$$module" in \
			.) flags="-cover" ;; \
			test/bench | test/differential) env=CGO_ENABLED=0; flags=-trimpath ;; \
			test/load) env=CGO_ENABLED=0; flags="-trimpath -count=1$(if $(filter all,$(E2E)),, -short)" ;; \
			test/e2e) env=CGO_ENABLED=0; flags="-trimpath -count=1$(if $(filter all,$(E2E)),, -run=$(E2E))" ;; \
			test/packaging) flags="-count=1$(if $(filter all,$(E2E)),, -short)" ;; \
			test/web) flags=-count=1 ;; \
		esac; \
		$(STEP) "tests of $$module" env $$env go -C $$module test -vet=off $$flags -timeout $(TESTTIMEOUT) $(TESTFLAGS) ./... 2>&1 | tee -a $(1) || failed=1; \
	done;
endef

.PHONY: quick
quick: ## Check format, lint and imports of the root module, and run its short tests: a few minutes, while you work
	@$(STEP) "files are formatted and have a header" tools/verify-format
	@$(STEP) "short tests of the root module" go test -vet=off -short ./...
	@$(STEP) "lint of the root module" $(TOOL) golangci-lint run --allow-parallel-runners ./...

.PHONY: test
test: build localcluster ## Run what each change needs: all modules but those of the night, the charts without a cluster, and end-to-end tests; E2E=all for all of these
	@$(call run_tests,$(LOG),$(filter-out $(NIGHTLY),$(TESTED))) \
	$(STEP) "short tests of packages with goroutines, with the race detector" go test -vet=off $(RACE) -short -timeout $(TESTTIMEOUT) $(TESTFLAGS) $(CONCURRENT) 2>&1 | \
		tee -a $(LOG) || failed=1; \
	printf '\n=== all tests\n'; tools/testresults $(LOG); \
	if [ -z "$(TESTFLAGS)" ]; then $(STEP) "statement coverage is above the floors" tools/coverage $(LOG) || failed=1; fi; \
	exit $$failed

.PHONY: test-nightly
test-nightly: build localcluster ## Run the tests that make test leaves out: images, releases, packaging, browser, and all end-to-end tests
	@$(STEP) "Prometheus and Karpenter for the local cluster" go -C localcluster run ./cmd/localcluster build --prometheus --karpenter
	@$(call run_tests,.cache/nightly.log,$(NIGHTLY) test/packaging test/e2e test/load) printf '\n=== all tests\n'; tools/testresults .cache/nightly.log; exit $$failed
test-nightly: E2E = all

.PHONY: test-race
test-race: ## Run all tests of the root module with the race detector
	@$(STEP) "tests of the root module, with the race detector" go test -vet=off $(RACE) -timeout 90m $(TESTFLAGS) ./...

.PHONY: test-bigendian
test-bigendian: ## Run the tests of stored formats as on s390x, under qemu (skipped if qemu-user is not installed)
	@$(STEP) "stored formats on a big-endian machine" tools/bigendian

# CLOCKPKG are the packages of the root module. tools/test-clock has the times and the time zones.
CLOCKPKG ?= ./...

.PHONY: test-clock
test-clock: ## Run the tests of the root module at several times of the day, at the end of a month and on 29 February, in two time zones
	@tools/test-clock $(CLOCKPKG)

.PHONY: test-worlds
test-worlds: ## Simulate 10,000 random clusters where replacements do not get their size, and compare with upstream (20 minutes)
	@$(STEP) "10,000 simulated clusters" env PODFIT_DIFFERENTIAL=100 CGO_ENABLED=0 go -C test/differential test -vet=off -trimpath -count=1 \
		-timeout 2h -v -run '^TestUpdater_replacementsAreNotSized' ./behaviour

# LONG=1 injects also the faults that take long. With it, WRITE=1 writes docs/faults.md.
LONG ?=
WRITE ?=

.PHONY: faults
faults: build localcluster ## Inject one fault after the other into a local cluster, and report how soon podfit works again (40 minutes; LONG=1 for all faults: 90 minutes)
	@$(STEP) "faults" env PODFIT_FAULTS=$(if $(LONG),long,1) PODFIT_FAULTS_WRITE=$(WRITE) \
		CGO_ENABLED=0 go -C test/e2e test -vet=off -trimpath -count=1 -timeout 5h -v -run '^TestFaults_' .

# MINUTES is how long the scene takes: 3 to try it.
MINUTES ?= 30

.PHONY: packing-scene
packing-scene: build localcluster ## Play a day of 40 workloads in TRACES=FILE on local clusters with upstream's rule and with packed (MINUTES=30)
	@$(STEP) "packing scene" env PODFIT_TRACE="$(abspath $(TRACES))" PODFIT_PACKING_MINUTES=$(MINUTES) CGO_ENABLED=0 go -C test/e2e test -vet=off -trimpath \
		-count=1 -timeout 2h -v -run '^TestPacking_' ./packing

# What takes too long for each change.
.PHONY: nightly
nightly: test-nightly test-race test-bigendian test-clock test-worlds fuzz ## Run the checks that take too long for each change

.PHONY: localcluster
localcluster: ## Build the local cluster: a real control plane with simulated nodes (about 10 CPU minutes the first time)
	@$(STEP) "local cluster" go -C localcluster run ./cmd/localcluster build

.PHONY: verify
verify: ## Check generated files, format, vet, lint, imports and modules
	@$(STEP) "generated files are up to date" tools/verify-generated
	@$(STEP) "files are formatted and have a header" tools/verify-format
	@for module in $(TESTED); do $(STEP) "vet $$module" go -C $$module vet ./...; done
	@$(STEP) "imports follow the layers" go test ./internal/archtest
	@$(MAKE) --no-print-directory lint
	@$(STEP) "modules are tidy" tools/verify-tidy $(MODULES)

.PHONY: lint
lint: ## Run golangci-lint on all modules (the first build of golangci-lint takes minutes)
	@failed=0; for module in $(TESTED); do \
		(cd $$module && $(CURDIR)/$(STEP) "lint $$module" go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...) || failed=1; \
	done; exit $$failed

.PHONY: vulnerabilities
vulnerabilities: ## Check linked modules for known vulnerabilities (uses vuln.go.dev; skipped if it is not reachable)
	@$(STEP) "known vulnerabilities" tools/vulnerabilities

.PHONY: generate
generate: ## Generate deep-copy functions, CRDs and documentation
	@tools/generate

.PHONY: bench
bench: ## Benchmark podfit and upstream's code side by side, and check the budgets
	@$(STEP) "budgets" go -C test/bench run .

.PHONY: bench-apply
bench-apply: ## Simulate how full clusters get the requests that pods need, with podfit's rules and upstream's
	@go -C test/bench run ./apply

# VPAS is the number of VPAs, and UPDATER is podfit or upstream. EVICTIONFLAGS are more flags; those after -- are of the updater.
VPAS ?= 1000
UPDATER ?= podfit
EVICTIONFLAGS ?=

.PHONY: bench-evictions
bench-evictions: ## Measure how fast an updater evicts the pods of VPAS=1000 VPAs on a real API server; UPDATER=upstream to compare
	@mkdir -p .cache/bin
	@$(STEP) "compile the benchmark" env CGO_ENABLED=0 go -C test/e2e build -trimpath -o $(CURDIR)/.cache/bin/evictions ./evictions
	@.cache/bin/evictions -vpas=$(VPAS) -updater=$(UPDATER) $(EVICTIONFLAGS)

# N is the number of VPAs, or several with commas, and M the number of pods of each. WRITE=1 writes docs/performance.md from all results so far.
# LOADFLAGS are more flags, such as -systems=run,separate,upstream, -churn, -history=0 or -steady=10m.
N ?= 1000
M ?= 10
LOADFLAGS ?=

.PHONY: load
load: ## Measure podfit with N=1000 VPAs of M=10 pods at an API server in memory; WRITE=1 writes docs/performance.md
	@mkdir -p .cache/bin
	@$(STEP) "compile the load rig" env CGO_ENABLED=0 go -C test/load build -trimpath -o $(CURDIR)/.cache/bin/load .
	@.cache/bin/load -workloads=$(N) -pods=$(M) $(if $(WRITE),-write) $(LOADFLAGS)

# MINUTES or HOURS is how long make soak runs, and SEED is the seed of its usage, churn and faults. It stores .cache/soak/report.json.
soak: MINUTES = 20
HOURS ?=
SEED ?= 1

.PHONY: soak
soak: ## Run podfit with N=1000 VPAs of M=10 pods, churn and faults for MINUTES=20, or HOURS; WRITE=1 writes docs/soak.md; fails if podfit violates an invariant, or anything grows
	@mkdir -p .cache/bin
	@$(STEP) "compile the load rig" env CGO_ENABLED=0 go -C test/load build -trimpath -o $(CURDIR)/.cache/bin/load .
	@.cache/bin/load -soak=$(if $(HOURS),$(HOURS)h,$(MINUTES)m) -workloads=$(N) -pods=$(M) -seed=$(SEED) $(if $(WRITE),-write) $(LOADFLAGS)

# RECOMMENDFLAGS are flags of the benchmark, such as -workloads=1000 -interval=30s.
RECOMMENDFLAGS ?=

.PHONY: bench-recommend
bench-recommend: ## Check the budget of podfit recommend for 5,000 workloads in a real Prometheus, which takes a while
	@$(STEP) "podfit recommend with 5,000 workloads" go -C test/e2e test -run '^$$' -bench /gentle -benchtime 1x -v -timeout 2h ./scale $(RECOMMENDFLAGS)

.PHONY: microbench
microbench: ## Run Go benchmarks; options: BENCH=regexp, BENCHPKG=./internal/..., BASE=.cache/bench/OTHER.txt to compare
	@mkdir -p .cache/bench
	@go test -run '^$$' -bench '$(BENCH)' -benchmem $(BENCHPKG) | tee .cache/bench/$(VERSION).txt
	@if [ -n "$(BASE)" ]; then $(TOOL) benchstat $(BASE) .cache/bench/$(VERSION).txt; fi

.PHONY: backtest-dev
backtest-dev: build ## Replay the traces in TRACES=FOLDER through all profiles, for the results in docs/backtest.md
	@traces=$$(find "$(TRACES)" -maxdepth 1 \( -name '*.csv' -o -name '*.csv.gz' \) 2>/dev/null | sort || true); \
	if [ -z "$$traces" ]; then echo "backtest-dev: skipped, no traces found; run make backtest-dev TRACES=FOLDER"; exit 0; fi; \
	for trace in $$traces; do \
		bin/podfit backtest --trace "$$trace" --workloads 0 \
			--recommenders default,balanced,cost,critical,busy-hours,autopilot,window-max; \
	done

.PHONY: backtest-nodes
backtest-nodes: build ## Pack the machines in TRACES="FILE FILE" on nodes of three sizes, and say what packed keeps; CHECK=1 fails if it does not
	@mkdir -p .cache
	@set -e; for t in $(TRACES); do \
		bin/podfit backtest --trace "$$t" --recommenders default,balanced,cost,critical,busy-hours,autopilot,packed --workloads 0 -o json \
			--nodes memory=16Gi,cpu=4,replicas=4 --nodes memory=64Gi,cpu=16,replicas=8 --nodes memory=256Gi,cpu=64,replicas=8 > .cache/nodes.json; \
		go -C test/differential run ./promises $(if $(CHECK),-check) < .cache/nodes.json; done

.PHONY: packed-choice
packed-choice: ## Choose the parameters of packed on each of the traces in TRACES="FILE FILE", and check them on all; takes 4 minutes of CPU time
	@PODFIT_TRACES="$(abspath $(TRACES))" go test ./internal/core/packing -run TestParameters_chosenOnOneTrace -count=1 -v -timeout 5h

.PHONY: fragments-pools
fragments-pools: ## Carry out the plans of podfit capacity --fragments on pools of the machines in TRACES="FILE FILE", and compare the nodes with lower bounds
	@PODFIT_TRACES="$(abspath $(TRACES))" go test ./internal/core/fragments -run ecordedPools -count=1 -v

.PHONY: backtest-roles
backtest-roles: ## Size the machines in TRACES=FILE in pairs by role, for the results in docs/backtest.md
	@for p in default balanced; do echo "profile $$p"; go -C test/differential run ./roles "$(abspath $(TRACES))" $$p; done

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME
	@tools/fuzz $(FUZZTIME)

# The demo is built with the flags of bin/podfit, so that the packages that both link are compiled once.
.PHONY: demo
demo: ## Show podfit at work on the local cluster; KEEP=1 keeps the cluster running until Ctrl-C
	@mkdir -p .cache/bin
	@$(STEP) "compile the demo (the first time a few minutes, later seconds)" \
		env CGO_ENABLED=0 go -C test/e2e build -trimpath -o $(CURDIR)/.cache/bin/demo ./demo
	@.cache/bin/demo

.PHONY: clean
clean: ## Remove build output and caches
	rm -rf bin dist .cache
