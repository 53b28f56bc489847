// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/kubetest"
)

// buffer is a log that the test reads while the command writes it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)

// start runs "podfit web" with flags, and returns the address of the page and its log.
func start(t *testing.T, flags ...string) (root string, log *buffer) {
	t.Helper()
	log = new(buffer)
	command := NewCommand(process.Streams{Out: io.Discard, Err: log}, nil)
	command.SetArgs(append([]string{"--web-address=127.0.0.1:0"}, flags...))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- command.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	kubetest.Eventually(t, "the page is served", func() bool {
		root = address.FindString(log.String()[strings.Index(log.String(), "Serving")+1:])
		return strings.Contains(log.String(), "Serving the web page") && root != ""
	})
	return root, log
}

// read returns the body of a page.
func read(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// stored returns a UsageHistory with hourly peaks of two days.
func stored(t *testing.T) string {
	t.Helper()
	profile, _ := recommend.Builtin("balanced")
	state := profile.Extend()
	begin := time.Now().Add(-48 * time.Hour)
	for hour := range 48 {
		state.Observe(usage.Sample{At: begin.Add(time.Duration(hour) * time.Hour), CPU: 0.2, Memory: 3e8, Has: cluster.Both}, cluster.Both)
	}
	data, err := state.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"deployment-web","resourceVersion":"7"},"spec":{"target":{"group":"apps","kind":"Deployment","name":"web"}},
		"status":{"histories":[{"container":"app","updated":%q,"format":"adaptive/1","data":%q}]}}`, time.Now().UTC().Format(time.RFC3339), base64.StdEncoding.EncodeToString(data))
}

// The command shows the cluster with a kubeconfig, and sends nothing but GET.
func TestCommand_cluster_pagesShowItAndNothingIsWritten(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	api.ApplyShop()
	api.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"shop","name":"web","uid":"v1","generation":4},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"350m","memory":"745Mi"},"lowerBound":{"cpu":"300m","memory":"700Mi"},"upperBound":{"cpu":"400m","memory":"800Mi"}}]}}}`)
	api.Reply("GET /apis/podfit.dev/v1alpha1/namespaces/shop/usagehistories/deployment-web", http.StatusOK, stored(t))
	root, log := start(t, "--kubeconfig="+kubetest.Kubeconfig(t, api.URL()))
	var page struct {
		Workloads        int
		WorkloadsWithVPA int
		Pods             int
		AtRisk           int `json:"workloadsAtRisk"`
	}
	kubetest.Eventually(t, "the page shows the pods", func() bool {
		if err := json.Unmarshal([]byte(read(t, root+"?format=json")), &page); err != nil {
			t.Fatal(err)
		}
		return page.Workloads == 1 && page.Pods == 3 && page.WorkloadsWithVPA == 1 && page.AtRisk == 1
	})
	text := read(t, root+"workloads/shop/Deployment/web")
	for _, want := range []string{"745 Mi", "no memory request", "Memory of container app", "data-chart", "kubectl patch vpa web -n shop"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page of the workload", want)
		}
	}
	for _, path := range []string{"workloads", "nodes", "activity", "profiles", "about"} {
		if text := read(t, root+path); !strings.Contains(text, "</html>") {
			t.Errorf("page %s is %q", path, text)
		}
	}
	for _, request := range api.Requests() {
		if !strings.HasPrefix(request, "GET ") {
			t.Errorf("the command sent %s", request)
		}
	}
	if strings.Contains(log.String(), "dry run") {
		t.Errorf("the log is about a dry run: %s", log)
	}

	api.Stop()
	kubetest.Eventually(t, "the page shows that the API server does not answer", func() bool {
		return strings.Contains(read(t, root), "may be out of date")
	})
	if text := read(t, root+"workloads"); !strings.Contains(text, ">web</a>") {
		t.Error("the workload is not shown any more")
	}
	api.Start()
}

// Namespaces that are excluded have no rows, no activity and no page. Their pods count on nodes.
func TestCommand_excludedNamespaces_areNotShown(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	api.ApplyShop()
	api.Apply("/api/v1/pods", `{"metadata":{"namespace":"kube-system","name":"dns","uid":"dns"},"spec":{"nodeName":"n1","containers":[{"name":"dns","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running"}}`)
	api.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"kube-system","name":"other","uid":"v2"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"other"}}}`)
	api.ApplyNode("n1", "4", "8Gi")
	event := func(namespace, pod string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%[1]q,"name":%[2]q},"reason":"EvictedByVPA","type":"Normal","message":"evicted","source":{"component":"vpa-updater"},"involvedObject":{"kind":"Pod","namespace":%[1]q,"name":%[2]q},"lastTimestamp":%[3]q}`,
			namespace, pod, time.Now().UTC().Format(time.RFC3339))
	}
	api.Reply("GET /api/v1/events", http.StatusOK, `{"kind":"EventList","apiVersion":"v1","items":[`+event("kube-system", "dns")+`,`+event("shop", "web-1-0")+`]}`)
	config := kubetest.Kubeconfig(t, api.URL())
	type overview struct{ Workloads, WorkloadsWithVPA, Pods int }
	for flags, want := range map[string]overview{"": {3, 2, 4}, "--web-exclude-namespaces=kube-*": {1, 1, 3}, "--web-exclude-namespaces=none,kube-system": {1, 1, 3}} {
		t.Run(flags, func(t *testing.T) {
			root, _ := start(t, append(strings.Fields(flags), "--kubeconfig="+config)...)
			kubetest.Eventually(t, fmt.Sprintf("everything is read, and the page shows %+v", want), func() bool {
				var page overview
				var about struct{ Loading []string }
				if err := errors.Join(json.Unmarshal([]byte(read(t, root+"?format=json")), &page), json.Unmarshal([]byte(read(t, root+"about?format=json")), &about)); err != nil {
					t.Fatal(err)
				}
				return page == want && len(about.Loading) == 0
			})
			for _, path := range []string{"", "workloads", "activity", "activity?format=json"} {
				if text := read(t, root+path); strings.Contains(text, "kube-system") && flags != "" {
					t.Errorf("page %q shows the excluded namespace: %s", path, text)
				}
			}
			excluded := flags != ""
			if text := read(t, root+"activity"); !strings.Contains(text, "web-1-0") || strings.Contains(text, "dns") == excluded {
				t.Errorf("the activity is %s", text)
			}
			if text := read(t, root+"workloads/kube-system/Deployment/other"); strings.Contains(text, "There is no such workload") != excluded {
				t.Errorf("the page of the workload is %s", text)
			}
			if text := read(t, root+"nodes?format=json"); !strings.Contains(text, `"requested": 1,`) {
				t.Errorf("the pod does not count on its node: %s", text)
			}
			if text := read(t, root+"about"); strings.Contains(text, "--web-exclude-namespaces") != excluded {
				t.Errorf("the page about podfit is %s", text)
			}
		})
	}
}

// A user with list but without watch of nodes sees the nodes, and a text that names the missing right.
func TestCommand_nodesMayBeListedButNotWatched_nodesAreShown(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	api.ApplyShop()
	api.ApplyNode("n1", "4", "8Gi")
	api.Reply("WATCH /api/v1/nodes", http.StatusForbidden, kubetest.Failure(http.StatusForbidden, "Forbidden", "nodes is forbidden: may not watch"))
	root, _ := start(t, "--kubeconfig="+kubetest.Kubeconfig(t, api.URL()))
	kubetest.Eventually(t, "the page shows the node and the missing right", func() bool {
		text := read(t, root+"nodes")
		return strings.Contains(text, "podfit may list nodes but not watch them") && strings.Contains(text, "on node n1")
	})
	if text := read(t, root+"nodes"); strings.Contains(text, "may not list") {
		t.Errorf("the page denies a right that podfit has: %s", text)
	}
}

// A user with the rights to get and list only, of any resource, sees the whole cluster.
func TestCommand_rightsToGetAndListOnly_pagesShowTheCluster(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	api.ApplyShop()
	api.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"shop","name":"web","uid":"v1"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`)
	api.ApplyNode("n1", "4", "8Gi")
	api.Handle(func(w http.ResponseWriter, _ *http.Request, q kubetest.Request) bool {
		if q.Verb == http.MethodGet {
			return false
		}
		kubetest.Respond(w, http.StatusForbidden, kubetest.Failure(http.StatusForbidden, "Forbidden", "the user may only get and list"))
		return true
	})
	root, _ := start(t, "--kubeconfig="+kubetest.Kubeconfig(t, api.URL()))
	var page struct{ Workloads, WorkloadsWithVPA, Pods, Nodes int }
	kubetest.Eventually(t, "the page shows the workload with its VPA and pods, and the node", func() bool {
		if err := json.Unmarshal([]byte(read(t, root+"?format=json")), &page); err != nil {
			t.Fatal(err)
		}
		return page.Workloads == 1 && page.WorkloadsWithVPA == 1 && page.Pods == 3 && page.Nodes == 1
	})
	kubetest.Eventually(t, "the page names the missing right", func() bool { return strings.Contains(read(t, root), "but not watch them") })
}

func TestCommand_wrongCall_isUsageError(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	api.ApplyShop()
	config := kubetest.Kubeconfig(t, api.URL())
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"no authentication for others": {[]string{"--web-address=:8945"}, "--web-auth=none on :8945 would show all workloads to everyone who can connect"},
		"unknown authentication":       {[]string{"--web-auth=basic"}, `--web-auth must be token, header or none, got "basic"`},
		"no port":                      {[]string{"--web-address=localhost"}, `--web-address must be HOST:PORT or :PORT, got "localhost"`},
		"empty address":                {[]string{"--web-address="}, "--web-address must not be empty"},
		"all hosts":                    {[]string{"--web-hosts=*"}, "--web-hosts=* needs --web-auth=token"},
		"proxy":                        {[]string{"--web-trusted-proxies=10.0.0.0/33"}, "--web-trusted-proxies must be a list of addresses"},
		"namespaces":                   {[]string{"--web-exclude-namespaces=["}, "--web-exclude-namespaces must be a name or a pattern"},
		"price file":                   {[]string{"--web-prices=/nonexistent", "--kubeconfig=" + config}, "--web-prices: "},
		"log format":                   {[]string{"--log-format=xml"}, "--log-format must be text or json"},
	} {
		command := NewCommand(process.Streams{Out: io.Discard, Err: io.Discard}, nil)
		command.SetArgs(c.flags)
		command.SilenceErrors = true
		command.SilenceUsage = true
		err := command.ExecuteContext(t.Context())
		if !errors.As(err, new(process.UsageError)) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Without flags, only this machine can reach the page, and it shows the whole cluster.
func TestCommand_noFlags_servesLoopbackOnPort8945(t *testing.T) {
	flags := NewCommand(process.Streams{}, nil).Flags()
	for name, want := range map[string]string{"web-address": "127.0.0.1:8945", "web-auth": "none", "web-unauthenticated": "false", "namespace": "", "web-hosts": "[]", "prometheus": ""} {
		if f := flags.Lookup(name); f == nil || f.DefValue != want {
			t.Errorf("--%s is %+v, want the default %q", name, f, want)
		}
	}
}

func TestConfig_valid_isAccepted(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"off":                 func(c *Config) { c.Address, c.Auth = "", "anything" },
		"token":               func(c *Config) { c.Address = ":8945" },
		"token, all hosts":    func(c *Config) { c.Address, c.Hosts = ":8945", []string{"*"} },
		"none on loopback":    func(c *Config) { c.Address, c.Auth = "[::1]:8945", "none" },
		"none on localhost":   func(c *Config) { c.Address, c.Auth = "localhost:8945", "none" },
		"none, said so":       func(c *Config) { c.Address, c.Auth, c.Unauthenticated = ":8945", "none", true },
		"header, one address": func(c *Config) { c.Address, c.Auth, c.Proxies = ":8945", "header", []string{"10.0.0.7", "fd00::/8"} },
	} {
		c := Defaults()
		change(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommand_unreachableServer_endsWithError(t *testing.T) {
	command := NewCommand(process.Streams{Out: io.Discard, Err: io.Discard}, nil)
	command.SetArgs([]string{"--kubeconfig=" + kubetest.Kubeconfig(t, "http://127.0.0.1:1")})
	command.SilenceErrors = true
	command.SilenceUsage = true
	if err := command.ExecuteContext(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestCommand_prometheus_onlyOfTheFlag(t *testing.T) {
	t.Setenv(process.PrometheusVariable, "http://other.example:9090")
	parsed := func(flags ...string) *settings {
		t.Helper()
		s := &settings{common: process.CommonDefaults(), web: LocalDefaults()}
		fs := pflag.NewFlagSet("web", pflag.ContinueOnError)
		s.Flags(fs)
		if err := fs.Parse(flags); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got, err := parsed().recorded(); got != nil || err != nil {
		t.Errorf("without --prometheus: %+v, %v", got, err)
	}
	got, err := parsed("--prometheus=http://prometheus.example:9090", "--cluster-label=cluster=prod").recorded()
	if err != nil || got == nil || got.Address != "http://prometheus.example:9090" || len(got.Labels) != 1 || got.Labels[0].Value != "prod" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, flags := range [][]string{{"--prometheus=localhost:9090"}, {"--prometheus-header=secret"}, {"--cluster-label=prod"}} {
		if err := parsed(flags...).Validate(); err == nil || !strings.Contains(err.Error(), strings.Split(flags[0], "=")[0]) {
			t.Errorf("%v: error %v", flags, err)
		}
	}
}
