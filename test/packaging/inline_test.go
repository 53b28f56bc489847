// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
)

var (
	inlineCommand = regexp.MustCompile("`((?:kubectl|helm|podfit|bin/podfit|make|go|git|curl|docker|jq|oc|skopeo) [^`]+)`")
	codeBlocks    = regexp.MustCompile("(?s)```.*?```")
	changedPod    = regexp.MustCompile(`(?:Resized|Evicted) a pod.* pod=shop/(\S+)`)
	subcommand    = regexp.MustCompile(`^podfit [a-z-]+$`) // the name of a command of podfit
)

// inlineNames are names of commands in the text of pages, which no reader copies: a command needs more words.
var inlineNames = []string{
	"kubectl apply", "kubectl apply -f", "kubectl apply -k", "kubectl scale", "kubectl podfit", "kubectl rollout undo", "kubectl create --dry-run=server",
	"helm upgrade", "helm rollback", "go list -deps", "go test -short", "go test -update",
}

// inlineCommands returns the commands in the text of all pages, in order.
func inlineCommands(t *testing.T) (all []pageCommand) {
	t.Helper()
	for _, page := range allPages(t) {
		for _, text := range inlineTexts(read(t, filepath.Join(root, page))) {
			if !slices.Contains(inlineNames, text) {
				all = append(all, pageCommand{page, text})
			}
		}
	}
	return all
}

// inlineTexts returns what begins as a command in the text of a page.
func inlineTexts(page string) (all []string) {
	for _, m := range inlineCommand.FindAllStringSubmatch(codeBlocks.ReplaceAllString(page, ""), -1) {
		all = append(all, strings.ReplaceAll(strings.Join(strings.Fields(m[1]), " "), `\|`, "|")) // \| is in a table
	}
	return all
}

func TestInlineTexts_page_commandsAreFound(t *testing.T) {
	const page = "Run `kubectl get\nvpa -A`, or `podfit web`.\n```\n`kubectl get pods`\n```\n| `podfit crds \\| kubectl diff -f -` | `kubectl` | `spec.x` |\n"
	if got, want := inlineTexts(page), []string{"kubectl get vpa -A", "podfit web", "podfit crds | kubectl diff -f -"}; !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
}

func TestInlineNames_each_isInAPage(t *testing.T) {
	var all []string
	for _, page := range allPages(t) {
		all = append(all, inlineTexts(read(t, filepath.Join(root, page)))...)
	}
	for _, name := range inlineNames {
		if !slices.Contains(all, name) {
			t.Errorf("no page has %q in its text", name)
		}
	}
}

// A phase is when a command in the text is run.
type phase int

const (
	whileRunning phase = iota // podfit is running
	afterStop                 // podfit has stopped, and the rights of the web page are granted
	removal                   // at the end
)

// An inlineStep says how a command in the text is run.
type inlineStep struct {
	step
	phase phase
	words map[string]string // placeholders of this command only
	add   string            // what the reader adds, because the text is about a part of the command line
}

// An inlineRun runs each command in the text of the pages once.
type inlineRun struct {
	*newcomer
	steps map[string]inlineStep
	used  map[string]bool // steps
	// log is a file with what podfit has logged, for example about the pod changed.
	log, changed string
}

// inline returns a run of the commands in the text. podfit is running.
func (n *newcomer) inline(t *testing.T, running []*bed.Podfit) *inlineRun {
	t.Helper()
	r := &inlineRun{newcomer: n, used: map[string]bool{}, log: filepath.Join(n.home, "podfit.log")}
	n.do(t, inPlace("worker"))
	until(t, "podfit has changed a pod", time.Minute, func(context.Context) error {
		var log strings.Builder
		for _, p := range running {
			log.WriteString(p.Tail(1_000_000))
		}
		m := changedPod.FindStringSubmatch(log.String())
		if m == nil {
			return errors.New(log.String())
		}
		r.changed = m[1]
		return os.WriteFile(r.log, []byte(log.String()), 0o600)
	})
	r.steps = r.readSteps()
	for _, more := range []map[string]inlineStep{r.changeSteps(), r.podfitSteps(), r.stoppedSteps()} {
		for text, s := range more {
			r.steps[text] = s
		}
	}
	return r
}

// run runs the commands of some phases. Commands that a code block has, or that another test runs, are not run again.
func (r *inlineRun) run(t *testing.T, phases ...phase) {
	t.Helper()
	if slices.Contains(phases, whileRunning) {
		r.createObjects(t)
		defer r.deleteObjects(t)
	}
	for _, phase := range phases {
		done := map[string]bool{}
		for _, c := range inlineCommands(t) {
			s, found := r.steps[c.text]
			r.used[c.text] = true
			if done[c.text] || s.phase != phase || !found && (r.done[c.text] || r.listed(c.text)) {
				continue
			}
			done[c.text] = true
			t.Run(c.text, func(t *testing.T) { r.take(t, s.step, r.commandLine(t, c.text, s)) })
		}
	}
	if slices.Contains(phases, removal) {
		for text := range r.steps {
			if !r.used[text] {
				t.Errorf("no page has the command %s in its text", text)
			}
		}
	}
}

// listed reports whether a command is in the list of those that other tests run.
func (r *inlineRun) listed(text string) bool {
	for _, e := range elsewhere {
		if e.command == text {
			return true
		}
	}
	return false
}

// commandLine returns what the reader of a command runs. Names of commands of podfit are looked up in its help, and targets of make in the
// Makefile.
func (r *inlineRun) commandLine(t *testing.T, text string, s inlineStep) string {
	t.Helper()
	if subcommand.MatchString(text) {
		return text + " --help"
	}
	if target, found := strings.CutPrefix(text, "make "); found {
		return "make -n -C " + r.repository + " " + target + " >/dev/null"
	}
	if logs, search, found := strings.Cut(text, " | grep"); found && strings.Contains(logs, " logs ") {
		// Simulated containers log one line only. So the part after the pipe searches the log of podfit and docs/messages.md.
		search = strings.ReplaceAll(search, "POD", r.changed)
		text = fmt.Sprintf("%s >/dev/null\ncat %s %s/docs/messages.md | grep%s", logs, r.log, r.repository, search)
	}
	words := map[string]string{
		"NAMESPACE": "shop", "VPA": "web", "WORKLOAD": "deploy/web", "HPA": "web", "DEPLOYMENT": "web", "PROFILE": "mine", "RESOURCE": "deployments.apps",
		"REASON": "InPlaceResizedByVPA", "NAME": "web", "KIND": "deploy", "COMMAND": "recommend", "URL": r.Prometheus,
	}
	if strings.Contains(text, "POD") || slices.Contains(slices.Collect(maps.Values(s.words)), "POD") {
		words["POD"] = r.pod(t).Name
	}
	if strings.Contains(text, "NODE") {
		words["NODE"] = r.pod(t).Spec.NodeName
	}
	for word, instead := range s.words {
		if instead == "POD" {
			instead = words["POD"]
		}
		words[word] = instead
	}
	return fill(text, words) + s.add
}

// pod returns a running pod of the Deployment web to which the webhook has applied the recommendation.
func (r *inlineRun) pod(t *testing.T) (found corev1.Pod) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		pods, err := r.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods.Items {
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && p.Annotations["vpaUpdates"] != "" {
				return p
			}
		}
	}
	t.Fatal("no pod of the Deployment web is running with a recommendation")
	return corev1.Pod{}
}

// inlineObjects are what the commands in the text are about.
const inlineObjects = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 2
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: large, namespace: shop}
spec: {hard: {requests.cpu: "1000", requests.memory: 1Ti}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: wide, namespace: shop}
spec: {limits: [{type: Container, min: {cpu: 1m, memory: 1Mi}}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: default}
---
apiVersion: podfit.dev/v1alpha1
kind: SizingProfile
metadata: {name: mine}
spec: {base: balanced, about: a profile with a mistake}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Certificate, plural: certificates, singular: certificate}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

func (r *inlineRun) provisioningCRD() string {
	return filepath.Join(r.repository, "internal", "edge", "kube", "capacity", "testdata", "provisioningrequests-crd.yaml")
}

func (r *inlineRun) createObjects(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.home, "objects.yaml"), []byte(inlineObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	r.do(t, "kubectl apply -f ~/objects.yaml -f "+r.provisioningCRD())
	r.do(t, "kubectl wait --for=condition=Established crd certificates.cert-manager.io provisioningrequests.autoscaling.x-k8s.io --timeout=1m")
	r.do(t, "kubectl -n shop delete pod -l app=web") // the webhook applies the recommendation to the new ones
}

func (r *inlineRun) deleteObjects(t *testing.T) {
	t.Helper()
	r.do(t, "kubectl delete -f ~/objects.yaml -f "+r.provisioningCRD())
}

// editor returns a step that edits an object with a script of sed, and checks what kubectl edit prints.
func (r *inlineRun) editor(script, edited string, commands ...string) step {
	return step{before: func(t *testing.T) {
		t.Helper()
		r.before(commands...)(t)
		text := "#!/bin/bash\nsed -E -i '" + script + "' \"$1\"\n"
		if err := os.WriteFile(filepath.Join(r.home, "editor"), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}, check: printed(edited + " edited")}
}

// alsoYes returns a check that a user may do something more.
func (r *inlineRun) alsoYes(questions ...string) func(*testing.T, string) {
	return func(t *testing.T, out string) {
		t.Helper()
		printed("yes")(t, out)
		for _, question := range questions {
			printed("yes")(t, r.do(t, "kubectl auth can-i "+question))
		}
	}
}

// readSteps are commands that change nothing. Those without an entry must only exit with code 0: "kubectl auth can-i" does so if the answer is
// yes.
func (r *inlineRun) readSteps() map[string]inlineStep {
	const as = " --as=system:serviceaccount:kube-system:"
	prints := map[string][]string{
		"kubectl -n NAMESPACE describe vpa VPA":                                                                                       {"Container Recommendations"},
		"kubectl get events -A --field-selector reason=REASON":                                                                        {"InPlaceResizedByVPA"},
		"kubectl -n NAMESPACE get pod POD -o jsonpath='{.metadata.annotations.vpaUpdates}'":                                           {"Pod resources updated by web"},
		"kubectl -n NAMESPACE get pod POD -o jsonpath='{.metadata.ownerReferences}'":                                                  {"ReplicaSet"},
		"kubectl -n NAMESPACE get pod POD -o jsonpath='{.status.conditions}'":                                                         {"Ready"},
		"kubectl -n NAMESPACE get vpa VPA -o jsonpath='{.spec.targetRef}'":                                                            {"Deployment"},
		"kubectl -n NAMESPACE get pdb":                                                                                                {"ALLOWED DISRUPTIONS"},
		"kubectl -n NAMESPACE describe pdb":                                                                                           {"Max unavailable"},
		"kubectl -n NAMESPACE describe replicaset":                                                                                    {"web-"},
		"kubectl -n NAMESPACE describe resourcequota":                                                                                 {"requests.memory"},
		"kubectl -n NAMESPACE describe resourcequota,limitrange":                                                                      {"large", "wide"},
		"kubectl -n NAMESPACE get limitrange -o yaml":                                                                                 {"wide"},
		"kubectl get sizingprofiles":                                                                                                  {"mine"},
		"kubectl get apiservice v1beta1.metrics.k8s.io":                                                                               {"True"},
		"kubectl get pods -A | grep admission-controller":                                                                             {"vpa-admission-controller-"},
		"kubectl get mutatingwebhookconfiguration vpa-webhook-config -o yaml":                                                         {"name: vpa.k8s.io"},
		"kubectl -n kube-system get pods -l app.kubernetes.io/component=admission-controller":                                         {"vpa-admission-controller-"},
		"kubectl -n kube-system describe pod -l app.kubernetes.io/component=updater":                                                  {"vpa-updater-"},
		"kubectl -n kube-system describe deploy/vpa-updater":                                                                          {"vpa-updater"},
		"kubectl -n kube-system get lease vpa-admission-controller -o yaml":                                                           {"renewTime"},
		"kubectl -n kube-system get leases -o custom-columns=NAME:.metadata.name,HOLDER:.spec.holderIdentity,RENEWED:.spec.renewTime": {"vpa-recommender-lease", "vpa-updater"},
		"kubectl get vpa -A": {"shop", "web", "True"},
		"kubectl get nodes -o custom-columns=NAME:.metadata.name,KERNEL:.status.nodeInfo.kernelVersion": {"KERNEL"},
		"kubectl get provisioningrequests -A -l podfit.dev/placeholder=true":                            {"No resources found"},
		"kubectl auth can-i --list" + as + "vpa-recommender":                                            {"usagehistories.podfit.dev"},
		"kubectl auth can-i --list" + as + "vpa-updater":                                                {"updatestates.podfit.dev"},
		"kubectl podfit explain -n NAMESPACE WORKLOAD":                                                  {"shop/Deployment/web"},
	}
	steps := map[string]inlineStep{}
	for text, want := range prints {
		steps[text] = inlineStep{step: step{check: printed(want...)}}
	}
	for text, command := range map[string]string{
		"kubectl -n NAMESPACE top pods --containers": "kubectl -n shop top pods --containers",
		"kubectl top pods -A --sort-by=memory":       "kubectl top pods -A",
	} {
		// A pod is listed a while after it was created, and its replacement a while after it is deleted.
		steps[text] = inlineStep{step: step{check: func(t *testing.T, _ string) { r.prints(t, command, "web-") }}}
	}
	// These rights are components that an operator adds.
	for right, folder := range map[string]string{"delete pods": "oom-rescue", "patch hpa": "hpa-targets", "patch horizontalpodautoscalers": "hpa-targets", "patch deployments": "surges"} {
		command := "kubectl auth can-i " + right + " -n %s" + as + "vpa-updater"
		steps[fmt.Sprintf(command, "NAMESPACE")] = inlineStep{step: step{before: func(t *testing.T) {
			r.do(t, "kubectl apply -f deploy/rights/"+folder+"/"+folder+".yaml")
			r.prints(t, fmt.Sprintf(command, "shop"), "yes")
		}, check: printed("yes")}}
	}
	create := "kubectl auth can-i create updatestates.podfit.dev -n NAMESPACE" + as + "vpa-updater"
	steps[create] = inlineStep{step: step{check: r.alsoYes("patch updatestates.podfit.dev -n shop" + as + "vpa-updater")}}
	steps["kubectl auth can-i list RESOURCE -A"+as+"vpa-updater"] = inlineStep{step: step{check: r.alsoYes(
		"list pods -A"+as+"vpa-recommender", "list verticalpodautoscalers -A"+as+"vpa-admission-controller")}}
	steps["kubectl -n NAMESPACE logs POD --previous"] = inlineStep{step: step{fails: "previous terminated container"}} // the pod was not restarted
	return steps
}

// changeSteps are commands that change something, so that it has an effect.
func (r *inlineRun) changeSteps() map[string]inlineStep {
	const condition = `{"status":{"conditions":[{"type":"FetchingHistory","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	gone := func(command, text string) func(*testing.T, string) {
		return func(t *testing.T, _ string) {
			t.Helper()
			if out := r.do(t, command); strings.Contains(out, text) {
				t.Errorf("%s prints %s:\n%s", command, text, out)
			}
		}
	}
	restarted := step{check: printed("restarted")}
	steps := map[string]inlineStep{
		"kubectl -n NAMESPACE annotate hpa HPA podfit.dev/scale-point-": {step: step{
			before: r.before("kubectl -n shop annotate --overwrite hpa web podfit.dev/scale-point={}"), check: gone("kubectl -n shop get hpa web -o yaml", "podfit.dev/scale-point: '{}'"),
		}},
		"kubectl -n NAMESPACE annotate vpa VPA podfit.dev/freeze-": {step: step{
			before: r.before("kubectl -n shop annotate vpa web podfit.dev/freeze=true"), check: gone("kubectl -n shop get vpa web -o yaml", "podfit.dev/freeze"),
		}},
		"kubectl annotate namespace NAMESPACE podfit.dev/freeze-": {step: step{
			before: r.before("kubectl annotate namespace shop podfit.dev/freeze=true"), check: gone("kubectl get namespace shop -o yaml", "podfit.dev/freeze"),
		}},
		"kubectl -n NAMESPACE edit hpa HPA":  {step: r.editor("s/averageUtilization: [0-9]+/averageUtilization: 71/", "horizontalpodautoscaler.autoscaling/web")},
		"kubectl edit sizingprofile PROFILE": {step: r.editor("s/a profile with a mistake/a correct profile/", "sizingprofile.podfit.dev/mine")},
		"kubectl -n NAMESPACE edit vpa VPA --subresource=status": {step: r.editor("s/type: FetchingHistory/type: Removed/",
			"verticalpodautoscaler.autoscaling.k8s.io/web", "kubectl -n shop patch vpa web --subresource=status --type merge -p '"+condition+"'")},
		"kubectl -n NAMESPACE delete pod POD":                           {step: step{check: printed("deleted")}},
		"kubectl -n NAMESPACE rollout restart WORKLOAD":                 {step: restarted},
		"kubectl -n kube-system rollout restart deploy/vpa-recommender": {step: restarted},
		"kubectl -n kube-system scale deployment vpa-admission-controller --replicas=0": {step: step{check: func(t *testing.T, out string) {
			printed("scaled")(t, out)
			r.do(t, "kubectl -n kube-system scale deployment vpa-admission-controller --replicas=2")
			r.prints(t, "kubectl -n kube-system top pod -l app.kubernetes.io/component=admission-controller", "vpa-admission-controller-") // commands about the pod follow
		}}},
		"kubectl apply -f deploy/15-webhook-objects.yaml":                  {step: step{check: printed("vpa-webhook")}},
		"kubectl apply -f deploy/rights/placeholders/placeholders.yaml":    {step: step{check: printed("placeholder")}},
		"podfit crds | kubectl apply --server-side --force-conflicts -f -": {step: step{check: printed("serverside-applied")}},
	}
	failurePolicy := `kubectl patch mutatingwebhookconfiguration vpa-webhook-config --type=json -p '[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]'`
	steps[failurePolicy] = inlineStep{step: step{check: printed("vpa-webhook-config patched")}}
	return steps
}

// podfitSteps are commands of podfit. Of those that run until they are stopped, only the command line is checked.
func (r *inlineRun) podfitSteps() map[string]inlineStep {
	const help, ofCluster, web = " --help", " --source cluster", " deploy/web -n shop"
	explained := step{check: printed("shop/Deployment/web")}
	writes := func(name, text string) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(r.checkout, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return map[string]inlineStep{
		"podfit run --dry-run":            {add: help},
		"podfit run --storage=prometheus": {add: help},
		"podfit run --web-address=:8945":  {add: help},
		"podfit updater --dry-run":        {add: help},
		"podfit backtest --recommenders":  {add: " balanced,cost --help"},
		"podfit backtest --nodes":         {add: " memory=64Gi,cpu=16 --help"},
		"podfit backtest --recommenders balanced,mine.yaml": {add: " -n shop --prometheus " + r.Prometheus, step: step{
			before: writes("mine.yaml", "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: mine}\nspec: {base: cost}\n"),
			fails:  "provide a history of at least two days",
		}},
		"podfit explain --if profile=NAME":        {add: web, words: map[string]string{"NAME": "cost"}, step: explained},
		"podfit explain -o json":                  {add: web, step: step{check: printed(`"shop/Deployment/web"`)}},
		"podfit explain KIND/NAME":                {add: " -n shop", step: explained},
		"podfit explain deploy/NAME":              {add: " -n shop", step: explained},
		"podfit explain deploy/NAME -n NAMESPACE": {step: explained},
		"podfit explain node/NODE":                {step: step{check: printed("allocatable")}},
		"podfit explain pod/NAME -n NAMESPACE":    {words: map[string]string{"NAME": "POD"}, step: step{check: printed("shop/Pod/web-")}},
		// The tests of the recommender have a Prometheus with such metrics.
		"podfit capacity --prometheus URL": {step: step{fails: "it must scrape kube-state-metrics"}},
		"podfit recommend --load=gentle":   {add: " -n shop --prometheus " + r.Prometheus},
		"podfit recommend --prices":        {add: " prices.yaml" + ofCluster, step: step{before: writes("prices.yaml", "currency: EUR\ndefault: {core: 0.0316, gib: 0.00424}\n")}},
		"podfit recommend -n NAMESPACE":    {add: ofCluster, step: step{check: printed("VPA objects")}},
		"podfit recommend -o json":         {add: ofCluster, step: step{check: printed(`"web"`)}},
		"podfit recommend -o kustomize":    {add: ofCluster, step: step{check: printed("kind: Component")}},
	}
}

// stoppedSteps are commands that podfit would interfere with, that need the rights of the web page, or that remove podfit.
func (r *inlineRun) stoppedSteps() map[string]inlineStep {
	const unusable = `{"status":{"conditions":[{"type":"SizingProfileUsable","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	const surges = `kubectl get deployments -A -o custom-columns='NAMESPACE:.metadata.namespace,NAME:.metadata.name,RECORD:.metadata.annotations.podfit\.dev/surge'` +
		` | grep -v '<none>'`
	const profiles = `kubectl get vpa -A -o custom-columns=` +
		`'NAMESPACE:.metadata.namespace,NAME:.metadata.name,USABLE:.status.conditions[?(@.type=="SizingProfileUsable")].status' | grep -E 'USABLE|False'`
	lists := func(name, other string) func(*testing.T, string) {
		return func(t *testing.T, out string) {
			t.Helper()
			if !strings.Contains(out, name) || strings.Contains(out, other) {
				t.Errorf("want a line for %s and none for %s:\n%s", name, other, out)
			}
		}
	}
	header := map[string]string{"NAMESPACE": "NAMESPACE", "NAME": "NAME"}
	reviewer := "kubectl auth can-i create tokenreviews --as=system:serviceaccount:kube-system:podfit"
	return map[string]inlineStep{
		surges: {phase: afterStop, words: header, step: step{
			before: r.before("kubectl -n store annotate deployment worker 'podfit.dev/surge={}'"), check: lists("worker", "vpa-updater"),
		}},
		profiles: {phase: afterStop, words: header, step: step{
			before: r.before("kubectl -n shop patch vpa cart --subresource=status --type merge -p '" + unusable + "'"), check: lists("cart", "worker"),
		}},
		reviewer: {phase: afterStop, step: step{check: r.alsoYes("create subjectaccessreviews --as=system:serviceaccount:kube-system:podfit")}},
		"kubectl delete crd updatestates.podfit.dev": {phase: afterStop, step: step{
			check: func(t *testing.T, _ string) {
				r.do(t, "podfit crds | kubectl apply --server-side --force-conflicts -f -")
			},
		}},
		"kubectl delete -f deploy/": {phase: removal, step: step{
			before: r.before("kubectl delete -f deploy/all-in-one/podfit.yaml --ignore-not-found", "kubectl apply -f deploy/"),
			check: func(t *testing.T, _ string) {
				r.installed("")(t, "")
				if out := r.do(t, "kubectl get crd -o name"); strings.Contains(out, "verticalpodautoscalers") {
					t.Errorf("CRDs exist:\n%s", out)
				}
			},
		}},
	}
}
