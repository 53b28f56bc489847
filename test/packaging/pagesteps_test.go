// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
)

// A newcomer runs the commands of all pages in a shell, on a real cluster.
func TestPages_everyCommand_isRun(t *testing.T) {
	w := cluster(t)
	w.clean(t)
	n := newNewcomer(t, w)
	defer n.leave(t)
	n.do(t, "podfit crds | kubectl apply --server-side --force-conflicts -f - && kubectl wait --for=condition=Established crd --all --timeout=1m")
	workloads := []string{workload, autoscaler, other("cart", "shop"), other("worker", "shop"), other("worker", "store")}
	if err := w.ApplyYAML(t.Context(), "", strings.Join(workloads, "---")); err != nil {
		t.Fatal(err)
	}
	go n.finishHooks(t.Context())
	n.do(t, "kubectl -n store rollout status deployment worker --timeout=1m && kubectl -n shop rollout status deployment web cart worker --timeout=1m")

	for _, g := range []guide{
		n.readmePage(), n.contributingPage(), n.updaterPage(), n.installPage(), n.migratePage(), n.outsidePage(),
	} {
		n.follow(t, g)
	}
	n.do(t, "kubectl apply -f deploy/")
	running := n.components(t)
	for _, g := range []guide{
		{page: "docs/explain.md", steps: map[string]step{"podfit explain": {check: printed("shop/Deployment/cart")}}},
		n.capacityPage(), n.contentionPage(), n.limitsPage(), n.rolloutPage(),
		{page: "docs/hpa.md", words: webOfShop},
		n.nodesPage(),
		{page: "docs/runbook.md", words: webOfShop, steps: map[string]step{"kubectl": {check: printed("POD", "web-", "app")}}},
		{page: "docs/runtimes.md", words: webOfShop},
		{page: "docs/startup.md", words: webOfShop},
	} {
		n.follow(t, g)
	}
	t.Run("annotations", n.annotationsAreValid)
	inline := n.inline(t, running)
	t.Run("in the text", func(t *testing.T) { inline.run(t, whileRunning) })
	stop(t, running)
	n.follow(t, n.webPage())
	t.Run("in the text, after podfit has stopped", func(t *testing.T) { inline.run(t, afterStop, removal) })
	for _, wait := range n.later {
		wait(t)
	}
	for _, c := range unrun(t, n.run) {
		t.Errorf("%s: no test runs the command %s", c.page, c.text)
	}
}

// webOfShop are the placeholders of most pages.
var webOfShop = map[string]string{"NAMESPACE": "shop", "VPA": "web", "WORKLOAD": "deploy/web"}

// other returns the manifest of the workload with another name and namespace, and a VPA for it in the namespace shop.
func other(name, namespace string) string {
	text := workload
	if namespace == "shop" {
		text += "---" + autoscaler
	}
	return strings.NewReplacer("web", name, "shop", namespace).Replace(text)
}

// leave removes what the newcomer has created.
func (n *newcomer) leave(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, in := range []struct{ namespace, name string }{{"shop", "cart"}, {"shop", "worker"}, {"store", "worker"}} {
		err := n.AppsV1().Deployments(in.namespace).Delete(ctx, in.name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	n.clean(t)
}

// finishHooks makes the jobs of upstream's chart end, which run forever on simulated nodes.
func (n *newcomer) finishHooks(ctx context.Context) {
	const end = `{"metadata":{"annotations":{"sim.podfit.dev/create.exit":"after=0s,code=0","sim.podfit.dev/patch.exit":"after=0s,code=0"}}}`
	for ctx.Err() == nil {
		pods, err := n.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "job-name"})
		if err == nil {
			for _, p := range pods.Items {
				_, _ = n.CoreV1().Pods(namespace).Patch(ctx, p.Name, types.MergePatchType, []byte(end), metav1.PatchOptions{}) // tried again
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// createVPA creates the VPA web, without a recommendation.
func (n *newcomer) createVPA(t *testing.T) {
	t.Helper()
	n.do(t, "kubectl -n shop delete vpa web --ignore-not-found")
	if err := n.ApplyYAML(t.Context(), "shop", autoscaler); err != nil {
		t.Fatal(err)
	}
}

// inPlace returns the command that lets podfit resize the pods of a VPA in the namespace shop.
func inPlace(vpa string) string {
	return "kubectl -n shop patch vpa " + vpa + ` --type merge -p '{"spec":{"updatePolicy":{"updateMode":"InPlaceOrRecreate"}}}'`
}

// prints waits until the output of a command contains a text.
func (n *newcomer) prints(t *testing.T, command, text string) {
	t.Helper()
	until(t, command+" prints "+text, time.Minute, func(ctx context.Context) error {
		c, out := n.shell(ctx, command)
		if err := c.Run(); err != nil || !strings.Contains(out.String(), text) {
			return fmt.Errorf("%v\n%s", err, out)
		}
		return nil
	})
}

// hasNumbers returns nil if the VPA web has a recommendation.
func (n *newcomer) hasNumbers(ctx context.Context, _ *output) error { return n.recommended(ctx) }

// hasNoNumbers checks that a dry run has written no recommendation.
func (n *newcomer) hasNoNumbers(t *testing.T, _ string) {
	t.Helper()
	if err := n.recommended(t.Context()); err == nil {
		t.Error("the VPA web has a recommendation")
	}
}

// installed checks the images of the Deployments of podfit or upstream. An empty image means that there are none.
func (n *newcomer) installed(image string) func(*testing.T, string) {
	return func(t *testing.T, _ string) {
		t.Helper()
		all, err := n.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := 3; image == "" && len(all.Items) > 0 || image != "" && len(all.Items) != want {
			t.Errorf("%d Deployments", len(all.Items))
		}
		for _, d := range all.Items {
			if got := d.Spec.Template.Spec.Containers[0].Image; !strings.HasPrefix(got, image) {
				t.Errorf("Deployment %s has the image %s, want %s", d.Name, got, image)
			}
		}
	}
}

const (
	ownImage   = "ghcr.io/podfit/" // images of podfit
	removeHelm = "helm uninstall vpa -n kube-system"
)

// commandOf returns the only command of a page that begins with a text.
func commandOf(t *testing.T, page, beginning string) string {
	t.Helper()
	commands, _ := pageCommands(page, read(t, filepath.Join(root, page)))
	commands = slices.DeleteFunc(commands, func(c pageCommand) bool { return !strings.HasPrefix(c.text, beginning) })
	if len(commands) != 1 {
		t.Fatalf("%s has %d commands that begin with %s", page, len(commands), beginning)
	}
	return commands[0].text
}

// removeManifests deletes what kubectl apply has created, except for the CRDs.
func (n *newcomer) removeManifests(t *testing.T) {
	t.Helper()
	n.do(t, commandOf(t, "docs/install.md", "kubectl delete -f deploy/10-rbac.yaml"))
}

// before returns a step's before function that runs commands.
func (n *newcomer) before(commands ...string) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		for _, c := range commands {
			n.do(t, c)
		}
	}
}

// upstreamRelease installs upstream's chart, in place of another release.
func (n *newcomer) upstreamRelease(t *testing.T) {
	t.Helper()
	_ = n.uninstall(t) // fails if there is no release
	const crds = " crd verticalpodautoscalers.autoscaling.k8s.io verticalpodautoscalercheckpoints.autoscaling.k8s.io "
	n.do(t, "kubectl label --overwrite"+crds+"app.kubernetes.io/managed-by=Helm") // as if upstream had been here first
	n.do(t, "kubectl annotate --overwrite"+crds+"meta.helm.sh/release-name=vpa meta.helm.sh/release-namespace=kube-system")
	if _, err := n.world.install(t, upstream(t), nil); err != nil {
		t.Fatal(err)
	}
}

func (n *newcomer) readmePage() guide {
	var running []*bed.Podfit
	steps := map[string]step{
		"podfit recommend -n store": {later: true, check: printed("store/deploy/worker", "1 workload")},
		"podfit explain":            {check: printed("shop/Deployment/worker", "VPA worker")},
		"kubectl apply -f deploy/":  {check: n.installed(ownImage)},
		"kubectl apply -k deploy/":  {check: n.installed(ownImage)},
		"helm install":              {before: n.removeManifests, check: n.installed(ownImage)},
		"kubectl get events -A --field-selector reason=InPlace": {
			before: func(t *testing.T) {
				n.do(t, inPlace("web"))
				n.prints(t, "kubectl get events -A --field-selector reason=InPlaceResizedByVPA", "pod/web-")
			},
			check: printed("InPlaceResizedByVPA"),
		},
		"kubectl -n kube-system get deployments": {
			before: func(t *testing.T) {
				running = n.components(t)
				until(t, "the VPA has numbers", time.Minute, n.recommended)
				until(t, "the webhook is registered", time.Minute, n.Registered)
			},
			check: printed("-recommender", "-updater", "-admission-controller"),
		},
		"kubectl get mutatingwebhookconfiguration": {check: printed("vpa-webhook-config   1")},
		"kubectl get vpa --all-namespaces":         {check: printed("shop", "web", "True", "m")},
		"kubectl -n NAMESPACE describe vpa":        {check: printed("Container Recommendations", "Lower Bound", "Upper Bound", "RecommendationProvided")},
		// The Prometheus has minutes of history. TestBacktest_prometheus_replaysHistory has weeks.
		"podfit backtest":            {before: func(t *testing.T) { stop(t, running) }, fails: "provide a history of at least two days"},
		"kubectl get sizingprofiles": {},
		"kubectl -n kube-system scale": {check: func(t *testing.T, _ string) {
			printed("0,0,0,")(t, n.do(t, "kubectl -n kube-system get deployments -o jsonpath='{range .items[*]}{.spec.replicas},{end}'"))
		}},
	}
	return guide{page: "README.md", words: map[string]string{"NAMESPACE": "shop", "NAME": "web", "URL": n.Prometheus}, steps: steps}
}

func (n *newcomer) contributingPage() guide {
	return guide{page: "CONTRIBUTING.md", steps: map[string]step{"make": {
		before: func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(n.checkout, "Makefile"), []byte(read(t, filepath.Join(root, "Makefile"))), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		check: printed("make build", "make quick", "make test", "make nightly", "make verify"),
	}}}
}

func (n *newcomer) installPage() guide {
	const image = "registry.example.com/podfit:1.0"
	steps := map[string]step{
		"sed -i": {check: func(t *testing.T, _ string) {
			printed(image)(t, n.do(t, "cat deploy/*.yaml"))
			if left := n.do(t, "grep -l ghcr.io/podfit deploy/*.yaml || true"); left != "" {
				t.Errorf("files with another image: %s", left)
			}
		}},
		"helm install":                  {before: n.before(removeHelm), check: n.installed(ownImage)},
		"helm upgrade vpa deploy/chart": {before: n.upstreamRelease, check: n.installed(ownImage)},
		"podfit crds |":                 {check: printed("verticalpodautoscalers.autoscaling.k8s.io serverside-applied")},
		"kubectl apply -k": {before: n.before("helm upgrade vpa deploy/chart -n kube-system --reuse-values",
			"kubectl apply --server-side --force-conflicts -f deploy/00-crds.yaml", removeHelm), check: n.installed(image)},
		"kubectl apply -f":                  {check: n.installed(image)},
		"kubectl -n kube-system get pods":   {check: printed("vpa-recommender-", "vpa-updater-", "vpa-admission-controller-")},
		"kubectl get vpa --all-namespaces":  {check: printed("shop", "web", "True")},
		"kubectl get mutatingwebhookconfig": {check: printed("vpa-webhook-config")},
		"helm upgrade vpa UPSTREAM": {
			before: func(t *testing.T) {
				n.removeManifests(t)
				n.do(t, "helm install vpa deploy/chart -n kube-system")
				n.do(t, "kubectl -n kube-system delete secret vpa-tls-certs")
				if err := os.WriteFile(filepath.Join(n.checkout, "your-values.yaml"), []byte("updater: {replicas: 1}\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			check: n.installed("registry.k8s.io/autoscaling/vpa-"),
		},
		"kubectl delete -f": {
			before: n.before(removeHelm, "kubectl apply -f deploy/"),
			check: func(t *testing.T, _ string) {
				n.installed("")(t, "")
				if err := n.recommended(t.Context()); err != nil {
					t.Errorf("the VPA was deleted: %v", err)
				}
			},
		},
	}
	return guide{page: "docs/install.md", steps: steps, words: map[string]string{
		"REGISTRY": "registry.example.com", "TAG": "1.0", "UPSTREAM": filepath.Join(n.upstream, "charts"),
	}}
}

func (n *newcomer) migratePage() guide {
	return guide{
		page: "docs/migrate.md",
		words: map[string]string{
			"REGISTRY": "registry.example.com", "VERSION": "1.0",
			"autoscaler/vertical-pod-autoscaler": filepath.Join(n.upstream, "charts", "vertical-pod-autoscaler"),
		},
		steps: map[string]step{"helm upgrade": {before: func(t *testing.T) {
			n.do(t, "kubectl apply -f deploy/")
			n.do(t, "kubectl -n kube-system scale deployment vpa-recommender vpa-updater vpa-admission-controller --replicas=0")
			n.removeManifests(t)
			n.upstreamRelease(t)
		}, check: func(t *testing.T, out string) {
			n.installed("registry.example.com/vpa-")(t, out)
			n.do(t, removeHelm)
		}}},
	}
}

func (n *newcomer) outsidePage() guide {
	const registration = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: vpa-webhook-config}
webhooks:
- {name: vpa.k8s.io, clientConfig: {url: "https://192.0.2.1:8000"}, failurePolicy: Ignore, sideEffects: None, admissionReviewVersions: [v1]}
`
	steps := map[string]step{
		"podfit crds |":        {check: printed("verticalpodautoscalers.autoscaling.k8s.io serverside-applied")},
		"podfit run --dry-run": {before: n.createVPA, during: says("Would recommend"), check: n.hasNoNumbers},
		"podfit recommender":   {during: n.hasNumbers},
		"podfit run --kubeconfig": {
			before: n.before("kubectl delete mutatingwebhookconfiguration vpa-webhook-config --ignore-not-found"),
			during: func(ctx context.Context, _ *output) error { return n.registeredAt(ctx, "https://127.0.0.1:8000") },
			check: func(t *testing.T, out string) {
				printed("Deleted the webhook configuration on shutdown")(t, out)
				n.unregistered(t, out)
			},
		},
		"for context in": {check: func(t *testing.T, _ string) {
			for _, report := range []string{"recommend", "capacity"} {
				for _, context := range []string{"prod", "arn_aws_eks_eu-central-1_123456789012_cluster_two"} {
					n.jsonFile(t, report+"-"+context+".json")
				}
			}
		}},
		`ln -s "$(command -v podfit)" ~/bin/kubectl-podfit`: {check: func(t *testing.T, _ string) {
			printed("podfit")(t, n.do(t, "kubectl podfit version"))
		}},
		`ln -s "$(command -v podfit)" ~/bin/kubectl_complete-podfit`: {check: func(t *testing.T, _ string) {
			printed("recommend\t", "recommender\t")(t, n.do(t, "kubectl __complete podfit recom"))
		}},
		"source <(podfit": {then: completion, check: printed("-- recommend", "-- recommender")},
		"kubectl get mutatingwebhookconfiguration": {
			before: func(t *testing.T) {
				if err := n.ApplyYAML(t.Context(), "", registration); err != nil {
					t.Fatal(err)
				}
			},
			check: printed("https://192.0.2.1:8000\n"),
		},
		"kubectl patch mutatingwebhookconfiguration": {check: func(t *testing.T, _ string) {
			c, err := n.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "vpa-webhook-config", metav1.GetOptions{})
			if err != nil || len(c.Webhooks) > 0 {
				t.Errorf("the webhook configuration is not empty: %+v, %v", c, err)
			}
		}},
	}
	return guide{page: "docs/outside.md", words: map[string]string{"ADDRESS": "127.0.0.1"}, steps: steps}
}

// completion completes "podfit recom" as bash does when Tab is pressed. The first two functions stand for that of bash, which works only after
// Tab, and for that of the package bash-completion.
const completion = `
compopt() { :; }
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }
function=$(complete -p podfit | sed 's/.*-F \([^ ]*\).*/\1/')
COMP_WORDS=(podfit recom) COMP_CWORD=1 COMP_LINE="podfit recom" COMP_POINT=12 COMP_TYPE=63
"$function"
printf -- '-- %s\n' "${COMPREPLY[@]}"
`

// jsonFile checks that a file is JSON and not empty.
func (n *newcomer) jsonFile(t *testing.T, name string) {
	t.Helper()
	var v map[string]any
	text := read(t, filepath.Join(n.checkout, name))
	if err := json.Unmarshal([]byte(text), &v); err != nil || len(v) == 0 {
		t.Errorf("%s: %v\n%s", name, err, text)
	}
}

// registeredAt returns nil if the webhook is registered with a URL.
func (n *newcomer) registeredAt(ctx context.Context, url string) error {
	c, err := n.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "vpa-webhook-config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(c.Webhooks) != 1 || c.Webhooks[0].ClientConfig.URL == nil || *c.Webhooks[0].ClientConfig.URL != url {
		return fmt.Errorf("webhooks %v", c.Webhooks)
	}
	return nil
}

func (n *newcomer) unregistered(t *testing.T, _ string) {
	t.Helper()
	if got := n.webhooks(t); len(got) > 0 {
		t.Errorf("the webhook configuration exists: %v", got)
	}
}

// updaterPage has the commands for the records about the pods that podfit has resized after the commands of the README.
func (n *newcomer) updaterPage() guide {
	return guide{page: "docs/updater.md", words: map[string]string{"NAMESPACE": "shop", "NAME": "web"}, steps: map[string]step{
		"kubectl get updatestates -A":             {check: printed("deployment-web", "Deployment", "Resize")},
		"kubectl -n NAMESPACE get updatestate":    {check: printed("kind: UpdateState", "action: Resize")},
		"kubectl -n NAMESPACE delete updatestate": {check: printed("deleted")},
	}}
}

// nodesPage has commands about surges and about requests for room, on a cluster that serves ProvisioningRequests.
func (n *newcomer) nodesPage() guide {
	crd := "kubectl apply -f " + filepath.Join(n.repository, "internal", "edge", "kube", "capacity", "testdata", "provisioningrequests-crd.yaml")
	return guide{page: "docs/nodes.md", words: webOfShop, steps: map[string]step{
		"kubectl get provisioningrequests": {
			before: n.before(crd, "kubectl wait --for=condition=Established crd provisioningrequests.autoscaling.x-k8s.io --timeout=1m"),
			check:  func(t *testing.T, _ string) { n.do(t, "kubectl delete crd provisioningrequests.autoscaling.x-k8s.io") },
		},
	}}
}

func (n *newcomer) capacityPage() guide {
	return guide{page: "docs/capacity.md", steps: map[string]step{
		"kubectl get capacityplan": {
			before: func(t *testing.T) { n.prints(t, "kubectl get capacityplans", "cluster") }, check: printed("NAME", "cluster"),
		},
		"kubectl edit capacityplan": {
			before: func(t *testing.T) {
				page := read(t, filepath.Join(root, "docs", "capacity.md"))
				spec := yamlBlock.FindStringSubmatch(page)[1]
				script := "#!/bin/bash\nsed -i '/^spec:/,/^[^ ]/{/^spec:/d;/^ /d}' \"$1\"\ncat >> \"$1\" <<'END'\n" + spec + "END\n"
				if err := os.WriteFile(filepath.Join(n.home, "editor"), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			},
			check: func(t *testing.T, out string) {
				printed("capacityplan.podfit.dev/cluster edited")(t, out)
				const fields = "{.spec.leadTimeDays} {.spec.thresholds} {.spec.base} {.spec.pools[0].name}"
				printed("21 [70,85] Allocatable gpu")(t, n.do(t, "kubectl get capacityplan cluster -o jsonpath='"+fields+"'"))
			},
		},
	}}
}

func (n *newcomer) contentionPage() guide {
	return guide{page: "docs/contention.md", words: webOfShop, steps: map[string]step{
		"kubectl -n NAMESPACE get vpa":        {check: printed("RecommendationProvided=True")},
		"kubectl podfit explain -n NAMESPACE": {check: printed("shop/Deployment/web")},
	}}
}

func (n *newcomer) limitsPage() guide {
	const policies = " -f deploy/policies/cpu-limits.yaml -f deploy/policies/cpu-requests.yaml"
	const limited = `kubectl -n shop run limited --image=a --dry-run=server --overrides=` +
		`'{"spec":{"containers":[{"name":"a","image":"a","resources":{"limits":{"cpu":"1"}}}]}}'`
	return guide{page: "docs/limits.md", words: webOfShop, steps: map[string]step{
		"kubectl label namespace NAMESPACE podfit.dev/cpu-limits": {
			before: n.before("kubectl apply" + policies),
			check:  func(t *testing.T, _ string) { n.prints(t, limited, "Warning: ") },
		},
		"kubectl label namespace NAMESPACE podfit.dev/cpu-requests": {check: func(t *testing.T, _ string) {
			n.prints(t, "kubectl -n shop run unlimited --image=a --dry-run=server", "Warning: ")
			n.do(t, "kubectl label namespace shop podfit.dev/cpu-limits- podfit.dev/cpu-requests-")
			n.do(t, "kubectl delete"+policies)
		}},
	}}
}

func (n *newcomer) rolloutPage() guide {
	frozen := func(t *testing.T, _ string) {
		t.Helper()
		printed("frozen")(t, strings.ToLower(n.do(t, "podfit explain deploy/web -n shop")))
	}
	thawed := func(t *testing.T) {
		t.Helper()
		if out := n.do(t, "podfit explain deploy/web -n shop"); strings.Contains(strings.ToLower(out), "frozen") {
			t.Errorf("the freeze has not ended:\n%s", out)
		}
	}
	return guide{page: "docs/rollout.md", steps: map[string]step{
		"kubectl -n kube-system create configmap": {
			before: n.before(inPlace("web")),
			check: func(t *testing.T, out string) {
				frozen(t, out)
				n.do(t, "kubectl -n kube-system delete configmap podfit-freeze")
				thawed(t)
			},
		},
		"kubectl -n shop annotate vpa web podfit.dev/change-window": {check: func(t *testing.T, _ string) {
			printed("kind: List")(t, n.do(t, "kubectl -n shop get updatestates -o yaml"))
		}},
		"kubectl -n shop annotate vpa basket": {before: func(t *testing.T) {
			if err := n.ApplyYAML(t.Context(), "shop", strings.ReplaceAll(autoscaler, "name: web", "name: basket")); err != nil {
				t.Fatal(err)
			}
		}},
		"kubectl annotate namespace": {check: func(t *testing.T, out string) {
			frozen(t, out)
			n.do(t, "kubectl annotate namespace shop podfit.dev/freeze-")
			thawed(t)
		}},
		"kubectl -n shop annotate vpa web podfit.dev/freeze=true": {check: frozen},
		"kubectl -n shop annotate vpa web podfit.dev/freeze-":     {check: func(t *testing.T, _ string) { thawed(t) }},
	}}
}

// annotationsAreValid checks that podfit reports no mistake in the annotations that the commands have set. A VPA with a mistake, which is created
// after them, shows that podfit has read them.
func (n *newcomer) annotationsAreValid(t *testing.T) {
	n.do(t, inPlace("cart"))
	const mistake = `kubectl -n shop annotate vpa cart podfit.dev/change-window=%s --overwrite`
	for _, wrong := range []string{"first", "second"} { // two passes
		n.do(t, fmt.Sprintf(mistake, wrong))
		n.prints(t, `kubectl -n shop get vpa cart -o jsonpath='{.status.conditions[?(@.type=="AnnotationInvalid")].message}'`, `window "`+wrong)
	}
	vpa := n.do(t, "kubectl -n shop get vpa web -o yaml")
	for _, name := range []string{
		"hpa: preserve", "change-window: 0 22", "rollout: canary", "canary-duration: 30m", "cpu-limits: remove", "mover: surge", "runtime-guards: cpu",
		"inject-cpu-count: request", `inject-heap-percent: "60"`, `learn-startup-boost: "true"`,
	} {
		if !strings.Contains(vpa, "podfit.dev/"+name) {
			t.Errorf("no annotation %s", name)
		}
	}
	events := n.do(t, "kubectl -n shop get events --field-selector type=Warning,involvedObject.kind=VerticalPodAutoscaler,involvedObject.name=web")
	if strings.Contains(vpa, "AnnotationInvalid") || strings.Contains(events, "InvalidAnnotation") {
		t.Errorf("a command of a page sets an invalid annotation:\n%s\n%s", vpa, events)
	}
}

func (n *newcomer) webPage() guide {
	answers := func(host, token string, status int) func(context.Context, *output) error {
		return func(ctx context.Context, _ *output) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8945/", nil)
			if err != nil {
				return err
			}
			request.Host = host
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != status {
				return fmt.Errorf("%s: %s, %v", host, response.Status, err)
			}
			return nil
		}
	}
	viewed := answers("127.0.0.1:8945", "", http.StatusOK)
	return guide{page: "docs/web.md", steps: map[string]step{
		"podfit web":              {during: viewed},
		"podfit web --prometheus": {during: viewed},
		"podfit web --context":    {during: viewed},
		"podfit run --web-address": {during: func(ctx context.Context, out *output) error {
			c, token := n.shell(ctx, "kubectl -n kube-system create token vpa-recommender")
			if err := c.Run(); err != nil {
				return errors.New(token.String())
			}
			return errors.Join(answers("podfit.example.com", strings.TrimSpace(token.String()), http.StatusOK)(ctx, out),
				answers("podfit.example.com", "", http.StatusUnauthorized)(ctx, out),
				answers("other.example.com", "", http.StatusForbidden)(ctx, out))
		}},
		"kubectl apply -f deploy/web/": {check: printed("service/podfit-web created")},
		"kubectl -n kube-system port-forward": {
			before: n.before("kubectl apply -f deploy/all-in-one/podfit.yaml", "kubectl -n kube-system rollout status deployment podfit --timeout=1m"),
			fails:  "not supported by the simulated container runtime", // the pod behind the Service is found
		},
	}}
}
