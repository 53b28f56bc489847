// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// folder is podfit's chart.
const folder = root + "/deploy/chart"

func load(t *testing.T, dir string) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// upstream returns upstream's chart, of the release that podfit is compared with.
func upstream(t *testing.T) *chart.Chart {
	t.Helper()
	return load(t, filepath.Join(upstreamModule(t), "charts", "vertical-pod-autoscaler"))
}

// values parses assignments as helm upgrade --set does.
func values(t *testing.T, set ...string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, s := range set {
		if err := strvals.ParseInto(s, out); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return out
}

// renderFiles renders a chart without a cluster, as helm template does. It returns the text of each template.
func renderFiles(c *chart.Chart, release chartutil.ReleaseOptions, vals map[string]any) (map[string]string, error) {
	if err := chartutil.ProcessDependencies(c, vals); err != nil {
		return nil, err
	}
	return renderFor("v1.34.0", c, release, vals)
}

// renderFor renders a chart whose dependencies are processed for a version of Kubernetes.
func renderFor(version string, c *chart.Chart, release chartutil.ReleaseOptions, vals map[string]any) (map[string]string, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	kube, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = *kube
	v, err := chartutil.ToRenderValues(c, vals, release, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, v)
}

func vpaRelease(upgrade bool) chartutil.ReleaseOptions {
	return chartutil.ReleaseOptions{Name: "vpa", Namespace: "kube-system", Revision: 1, IsInstall: !upgrade, IsUpgrade: upgrade}
}

// manifest returns the objects of rendered templates.
func manifest(t *testing.T, rendered map[string]string) (out objects) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if path.Ext(name) == ".yaml" && !strings.Contains(path.Base(name), "_") {
			out = append(out, parse(t, rendered[name])...)
		}
	}
	return out
}

// render renders podfit's chart with assignments.
func render(t *testing.T, set ...string) objects {
	t.Helper()
	rendered, err := renderFiles(load(t, folder), vpaRelease(false), values(t, set...))
	if err != nil {
		t.Fatal(err)
	}
	return manifest(t, rendered)
}

// reuse renders podfit's chart as helm upgrade --reuse-values does after upstream's chart: the values of the previous chart take the place
// of values.yaml.
func reuse(t *testing.T, previous *chart.Chart, config map[string]any, set ...string) (map[string]string, error) {
	t.Helper()
	old, err := chartutil.CoalesceValues(previous, config)
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, folder)
	c.Values = old
	return renderFiles(c, vpaRelease(true), chartutil.CoalesceTables(values(t, set...), config))
}

func TestChart_lint_findsNothing(t *testing.T) {
	for _, m := range lint.All(folder, nil, "kube-system", true).Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}

// notTaken are keys of upstream's values that podfit's values.yaml does not have, with the reason.
var notTaken = map[string]string{
	"admissionController.certGen.": "podfit creates its own certificates and needs no job; the schema accepts these keys",
}

func TestChart_upstreamValues_eachKeyIsInOurs(t *testing.T) {
	ours := map[string]bool{}
	keys("", load(t, folder).Values, func(key string, _ any) { ours[key] = true })
	unused := maps.Clone(notTaken)
	keys("", upstream(t).Values, func(key string, _ any) {
		if ours[key] {
			return
		}
		for prefix := range notTaken {
			if strings.HasPrefix(key, prefix) {
				delete(unused, prefix)
				return
			}
		}
		t.Errorf("upstream's chart has the value %s, podfit's has not", key)
	})
	if len(unused) > 0 {
		t.Errorf("these exceptions are not used: %v", unused)
	}
}

// keys calls f for each path of a value.
func keys(prefix string, v any, f func(string, any)) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	for k, v := range m {
		f(prefix+k, v)
		keys(prefix+k+".", v, f)
	}
}

// Each key of upstream's values has an effect on the rendered objects, or the reason why not is here.
var withoutEffect = map[string]string{
	"admissionController.certGen":         "podfit creates its own certificates",
	"admissionController.registerWebhook": "podfit always keeps its webhook configuration up to date",
	"crds.enabled":                        "it has an effect on a cluster with CRDs: TestChart_upgradeFromUpstreamAndBack_keepsEverything",
	"crds.keep":                           "only true is allowed",
}

// conditions are what a value needs so that it is used, by the prefix of its key.
var conditions = map[string][]string{
	"admissionController.certManager.":                        {"admissionController.certManager.enabled=true", "admissionController.certManager.issuerRef.name=ca"},
	"admissionController.certManager.createSelfSignedIssuer.": {"admissionController.certManager.createSelfSignedIssuer.enabled=true"},
	"admissionController.tls.":                                {"admissionController.tls.create=true", "admissionController.tls.caCert=a", "admissionController.tls.cert=b", "admissionController.tls.key=c"},
}

// changes are other values for keys whose default does not determine one, by the end of the key.
var changes = map[string][]string{
	"admissionController.certManager.enabled": {"=true", "admissionController.certManager.issuerRef.name=x"},
	".createSelfSignedIssuer.enabled":         {"=false"},
	"admissionController.tls.create":          {"=true", "admissionController.tls.caCert=a", "admissionController.tls.cert=b", "admissionController.tls.key=c"},
	".tls.create":                             {"=false"},
	".algorithm":                              {"=ECDSA"},
	".failurePolicy":                          {"=Fail"},
	".pullPolicy":                             {"=Always"},
	"issuerRef.kind":                          {"=Issuer"},
	"uration":                                 {"=3h"},
	"renewBefore":                             {"=3h"},
	"Deadline":                                {"=3s"},
	"Period":                                  {"=3s"},
	"timeoutSeconds":                          {"=7"},
	"Selector":                                {".matchLabels.a=b"},
	"nodeSelector":                            {".a=b"},
	"resources":                               {".limits.cpu=3"},
	"ecurityContext":                          {".privileged=false"},
	"extraArgs":                               {"[0]=--v=9"},
	"ports":                                   {"[0].port=444"},
	"extraRules":                              {"[0].verbs[0]=get"},
	"volumeMounts":                            {"[0].name=a", "admissionController.volumeMounts[0].mountPath=/a"},
	"recommender.leaderElection.enabled":      {"=false", "recommender.replicas=1"},
	"updater.leaderElection.enabled":          {"=false", "updater.replicas=1"},
	"recommender.podDisruptionBudget.maxUnavailable":         {"=1", "recommender.podDisruptionBudget.minAvailable=null"},
	"updater.podDisruptionBudget.maxUnavailable":             {"=1", "updater.podDisruptionBudget.minAvailable=null"},
	"admissionController.podDisruptionBudget.maxUnavailable": {"=1", "admissionController.podDisruptionBudget.minAvailable=null"},
}

// change returns assignments that change a value.
func change(key string, value any) []string {
	longest := ""
	for suffix := range changes {
		if strings.HasSuffix(key, suffix) && len(suffix) > len(longest) {
			longest = suffix
		}
	}
	if to, ok := changes[longest]; ok && to != nil {
		return append([]string{key + to[0]}, to[1:]...)
	}
	switch v := value.(type) {
	case bool:
		return []string{fmt.Sprintf("%s=%t", key, !v)}
	case float64, int, int64:
		return []string{key + "=7"}
	case map[string]any:
		return []string{key + ".a=b"}
	case []any:
		return []string{key + "[0].name=x"}
	}
	return []string{key + "=x"}
}

func TestChart_eachUpstreamValue_changesTheObjects(t *testing.T) {
	keys("", upstream(t).Values, func(key string, value any) {
		for prefix := range withoutEffect {
			if key == prefix || strings.HasPrefix(key, prefix+".") {
				return
			}
		}
		if m, ok := value.(map[string]any); ok && len(m) > 0 {
			return // its keys are tested
		}
		var base []string
		for _, prefix := range slices.Sorted(maps.Keys(conditions)) {
			if strings.HasPrefix(key, prefix) && !strings.HasSuffix(key, "certManager.enabled") {
				base = append(base, conditions[prefix]...)
			}
		}
		set := change(key, value)
		if key == "admissionController.tls.create" || key == "admissionController.certManager.enabled" {
			base = nil
		}
		if reflect.DeepEqual(render(t, base...), render(t, append(base, set...)...)) {
			t.Errorf("--set %s changes no object", strings.Join(set, ","))
		}
	})
}

func TestChart_defaultsOfNewValues_areThoseOfValuesYAML(t *testing.T) {
	text, err := os.ReadFile(folder + "/files/defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	values := load(t, folder).Values
	for key, want := range defaults {
		if diff := cmp.Diff(want, values[key]); diff != "" {
			t.Errorf("%s: files/defaults.yaml (-) and values.yaml (+)\n%s", key, diff)
		}
	}
	known := upstream(t).Values
	for key := range values {
		if _, ok := defaults[key]; !ok && known[key] == nil && key != "nameOverride" && key != "fullnameOverride" {
			t.Errorf("%s is in values.yaml, and neither in upstream's nor in files/defaults.yaml", key)
		}
	}
}

// The names and selectors that cannot change, or on which other objects rely.
func TestChart_names_areThoseOfUpstreamsChart(t *testing.T) {
	for _, release := range []string{"vpa", "vertical-pod-autoscaler", "my-vertical-pod-autoscaler-2"} {
		for _, set := range [][]string{nil, {"nameOverride=autoscaler"}, {"fullnameOverride=sizing"}} {
			options := chartutil.ReleaseOptions{Name: release, Namespace: "autoscaling", IsInstall: true}
			var got [2]objects
			for i, c := range []*chart.Chart{upstream(t), load(t, folder)} {
				rendered, err := renderFiles(c, options, values(t, set...))
				if err != nil {
					t.Fatal(err)
				}
				got[i] = manifest(t, rendered)
			}
			upstreams, ours := got[0], got[1]
			for _, want := range of[appsv1.Deployment](t, upstreams, "Deployment") {
				d := deployment(t, ours, want.Name)
				if d.Name != want.Name || d.Namespace != want.Namespace || !reflect.DeepEqual(d.Spec.Selector, want.Spec.Selector) {
					t.Errorf("%s %v: %s/%s selects %v, upstream's %s/%s %v", release, set, d.Namespace, d.Name, d.Spec.Selector, want.Namespace, want.Name, want.Spec.Selector)
				}
				for k, v := range want.Spec.Selector.MatchLabels {
					if d.Spec.Template.Labels[k] != v {
						t.Errorf("%s: the pods have %s=%s, want %s", d.Name, k, d.Spec.Template.Labels[k], v)
					}
				}
				if d.Spec.Template.Spec.ServiceAccountName != want.Spec.Template.Spec.ServiceAccountName {
					t.Errorf("%s: service account %s, upstream's %s", d.Name, d.Spec.Template.Spec.ServiceAccountName, want.Spec.Template.Spec.ServiceAccountName)
				}
			}
			// The role of a binding cannot change.
			roles := map[string]any{}
			for _, o := range upstreams {
				if strings.HasSuffix(o.GetKind(), "Binding") {
					roles[id(o)] = o.Object["roleRef"]
				}
			}
			for _, o := range ours {
				if want, ok := roles[id(o)]; ok && !reflect.DeepEqual(want, o.Object["roleRef"]) {
					t.Errorf("%s: roleRef %v, upstream's %v; an upgrade would fail", id(o), o.Object["roleRef"], want)
				}
			}
			for _, kind := range []string{"ServiceAccount", "PodDisruptionBudget", "Service"} {
				var want, have []string
				for _, o := range upstreams {
					if o.GetKind() == kind && !strings.Contains(o.GetName(), "certgen") {
						want = append(want, id(o))
					}
				}
				for _, o := range ours {
					if o.GetKind() == kind {
						have = append(have, id(o))
					}
				}
				slices.Sort(want)
				slices.Sort(have)
				if !slices.Equal(want, have) {
					t.Errorf("%s: %v, upstream's %v", kind, have, want)
				}
			}
		}
	}
}

// The chart and deploy/ give the same service accounts the same rights.
func TestChart_rights_areThoseOfDeploy(t *testing.T) {
	want := rights(t, files(t, "deploy/*.yaml"))
	got := rights(t, render(t))
	for _, component := range []string{"recommender", "updater", "admission-controller"} {
		// The manifests allow both the lease of upstream's manifests and the one of its chart.
		want := slices.DeleteFunc(want["vpa-"+component], func(s string) bool {
			return strings.Contains(s, "leases[vpa-"+component+"]") && component != "admission-controller"
		})
		if diff := cmp.Diff(want, got["vpa-vertical-pod-autoscaler-"+component]); diff != "" {
			t.Errorf("%s: deploy/ (-) and the chart (+)\n%s", component, diff)
		}
	}
	if len(got) != 3 {
		t.Errorf("accounts %v", slices.Sorted(maps.Keys(got)))
	}
}

func TestChart_singleMode_rightsAreThoseOfAllInOne(t *testing.T) {
	want := rights(t, append(files(t, "deploy/1*.yaml"), files(t, "deploy/all-in-one/*.yaml")...))["podfit"]
	got := rights(t, render(t, "mode=single"))
	if diff := cmp.Diff(want, got["vpa-vertical-pod-autoscaler"]); diff != "" || len(got) != 1 {
		t.Errorf("%d accounts; deploy/all-in-one (-) and the chart (+)\n%s", len(got), diff)
	}
}

// The page asks the API server about its viewers, and reads the template of a pod when it explains a workload.
func TestChart_web_rightsAreThoseOfDeployAndNoMore(t *testing.T) {
	without := append(files(t, "deploy/1*.yaml"), files(t, "deploy/all-in-one/*.yaml")...)
	want := rights(t, append(slices.Clone(without), files(t, "deploy/web/*.yaml")...))["podfit"]
	got := rights(t, render(t, "mode=single", "web.enabled=true"))
	if diff := cmp.Diff(want, got["vpa-vertical-pod-autoscaler"]); diff != "" {
		t.Errorf("deploy/all-in-one with deploy/web (-) and the chart with web.enabled=true (+)\n%s", diff)
	}
	base := rights(t, without)["podfit"]
	added := slices.DeleteFunc(slices.Clone(want), func(right string) bool { return slices.Contains(base, right) })
	if diff := cmp.Diff([]string{
		"cluster /pods: get", "cluster authentication.k8s.io/tokenreviews: create", "cluster authorization.k8s.io/subjectaccessreviews: create",
	}, added); diff != "" {
		t.Errorf("rights that only the page uses (-) and those that deploy/web adds (+)\n%s", diff)
	}
}

// The Deployments of the chart are those of deploy/, apart from names, labels, and flags that the chart has values for.
func TestChart_deployments_areThoseOfDeploy(t *testing.T) {
	manifests := append(files(t, "deploy/*.yaml"), files(t, "deploy/all-in-one/*.yaml")...)
	for _, tt := range []struct {
		name, ours string
		set        []string
		args       []string // of the chart, in addition to those of deploy/
	}{
		{"vpa-recommender", "-recommender", nil, nil},
		{"vpa-updater", "-updater", nil, []string{"--in-place-skip-disruption-budget=true"}},
		{"vpa-admission-controller", "-admission-controller", nil, []string{"--webhook-service=vpa-webhook"}},
		{"podfit", "vertical-pod-autoscaler", []string{"mode=single"}, []string{"--webhook-service=vpa-webhook", "--in-place-skip-disruption-budget=true"}},
	} {
		want, got := deployment(t, manifests, tt.name), deployment(t, render(t, tt.set...), tt.ours)
		a, b := &want.Spec.Template.Spec, &got.Spec.Template.Spec
		ca, cb := a.Containers[0], b.Containers[0]
		if cmd := append(slices.Clone(cb.Command), cb.Args...); cmd[0] != "/podfit" || cmd[1] != ca.Args[0] {
			t.Errorf("%s: the command is %v, that of deploy/ is %v", tt.name, cmd, ca.Args)
		}
		for _, arg := range tt.args {
			if !slices.Contains(cb.Args, arg) {
				t.Errorf("%s: no %s in %v", tt.name, arg, cb.Args)
			}
		}
		for _, arg := range cb.Args {
			if !slices.Contains(tt.args, arg) && !slices.Contains(ca.Args, arg) && !strings.HasPrefix(arg, "--leader-elect") && arg != "--v=4" {
				t.Errorf("%s: unexpected %s", tt.name, arg)
			}
		}
		for _, arg := range ca.Args[1:] {
			if !slices.Contains(cb.Args, arg) && !strings.HasPrefix(arg, "--leader-elect") {
				t.Errorf("%s: deploy/ has %s, the chart has not", tt.name, arg)
			}
		}
		if tt.name != "vpa-admission-controller" && !slices.Contains(cb.Args, "--leader-elect=true") {
			t.Errorf("%s: no leader election: %v", tt.name, cb.Args)
		}
		if !strings.HasPrefix(cb.Image, "ghcr.io/podfit/") || !strings.HasSuffix(cb.Image, ca.Image[strings.LastIndex(ca.Image, ":"):]) {
			t.Errorf("%s: image %s, that of deploy/ is %s", tt.name, cb.Image, ca.Image)
		}
		for _, c := range []*corev1.Container{&ca, &cb} {
			c.Name, c.Image, c.Command, c.Args = "", "", nil, nil
		}
		// Each has a label by which its pods avoid each other's node.
		if a.Affinity.PodAntiAffinity == nil || b.Affinity.PodAntiAffinity == nil {
			t.Errorf("%s: no anti-affinity", tt.name)
		}
		for _, p := range []*corev1.PodSpec{a, b} {
			p.Affinity, p.ServiceAccountName, p.Containers = nil, "", nil
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: deploy/ (-) and the chart (+)\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(ca, cb); diff != "" {
			t.Errorf("%s: deploy/ (-) and the chart (+)\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(want.Spec.Strategy, got.Spec.Strategy); diff != "" || *want.Spec.Replicas != *got.Spec.Replicas {
			t.Errorf("%s: replicas %d and %d, strategy (-deploy/ +chart)\n%s", tt.name, *want.Spec.Replicas, *got.Spec.Replicas, diff)
		}
		budgets := of[policyv1.PodDisruptionBudget](t, render(t, tt.set...), "PodDisruptionBudget")
		if !slices.ContainsFunc(budgets, func(b *policyv1.PodDisruptionBudget) bool {
			return reflect.DeepEqual(b.Spec.Selector, got.Spec.Selector)
		}) {
			t.Errorf("%s: no disruption budget", tt.name)
		}
	}
}

// blocks reports whether a budget allows no eviction although all replicas are healthy, so that a drain of their nodes never ends.
func blocks(t *testing.T, b *policyv1.PodDisruptionBudget, replicas int) bool {
	t.Helper()
	amount := func(v *intstr.IntOrString) int {
		n, err := intstr.GetScaledValueFromIntOrPercent(v, replicas, true) // as the controller of disruption budgets rounds
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if b.Spec.MaxUnavailable != nil {
		return amount(b.Spec.MaxUnavailable) == 0
	}
	return amount(b.Spec.MinAvailable) >= replicas
}

func TestDisruptionBudgets_anyNumberOfReplicas_allowDrains(t *testing.T) {
	all := func(replicas string, set ...string) (out []string) {
		for _, key := range []string{"recommender", "updater", "admissionController", "single"} {
			out = append(out, key+".replicas="+replicas)
		}
		return append(out, set...)
	}
	for name, tt := range map[string]struct {
		objects objects
		budgets int
	}{
		"chart":                              {render(t), 3},
		"chart, one replica":                 {render(t, all("1")...), 0},
		"chart, single, one replica":         {render(t, all("1", "mode=single")...), 0},
		"chart, share of one replica":        {render(t, all("1", "updater.podDisruptionBudget.minAvailable=50%")...), 0},
		"chart, maxUnavailable of a replica": {render(t, all("1", "updater.podDisruptionBudget.minAvailable=null", "updater.podDisruptionBudget.maxUnavailable=1")...), 1},
		"chart, three replicas":              {render(t, all("3")...), 3},
		"deploy/":                            {files(t, "deploy/*.yaml"), 3},
		"deploy/all-in-one":                  {files(t, "deploy/all-in-one/*.yaml"), 1},
	} {
		budgets := of[policyv1.PodDisruptionBudget](t, tt.objects, "PodDisruptionBudget")
		if len(budgets) != tt.budgets {
			t.Errorf("%s: %d budgets, want %d", name, len(budgets), tt.budgets)
		}
		for _, b := range budgets {
			replicas := []int{1, 2} // kubectl scale changes those of manifests
			if strings.HasPrefix(name, "chart") {
				replicas = []int{int(*deployment(t, tt.objects, b.Name).Spec.Replicas)}
			}
			for _, n := range replicas {
				if blocks(t, b, n) {
					t.Errorf("%s: the budget %s allows no eviction of %d replicas", name, b.Name, n)
				}
			}
		}
	}
}

// Each way to install podfit gives the webhook the same time to answer.
func TestWebhookTimeout_eachWay_isTheSame(t *testing.T) {
	for name, all := range map[string]objects{
		"deploy/": files(t, "deploy/*.yaml"), "all-in-one": files(t, "deploy/all-in-one/*.yaml"), "chart": render(t), "chart, single": render(t, "mode=single"),
	} {
		var found []string
		for _, d := range of[appsv1.Deployment](t, all, "Deployment") {
			for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
				if strings.HasPrefix(arg, "--webhook-timeout-seconds") {
					found = append(found, arg)
				}
			}
		}
		if !slices.Equal(found, []string{"--webhook-timeout-seconds=5"}) {
			t.Errorf("%s: %q", name, found)
		}
	}
}

// The objects of the chart are of the same kinds as those of deploy/.
func TestChart_kinds_areThoseOfDeploy(t *testing.T) {
	kinds := func(all objects) map[string]bool {
		out := map[string]bool{}
		for _, o := range all {
			if o.GetKind() != "CustomResourceDefinition" { // in the folder crds/ of the chart
				out[o.GetKind()] = true
			}
		}
		return out
	}
	if diff := cmp.Diff(kinds(files(t, "deploy/*.yaml")), kinds(render(t))); diff != "" {
		t.Errorf("deploy/ (-) and the chart (+)\n%s", diff)
	}
}

func TestChart_crds_areThoseOfDeploy(t *testing.T) {
	if diff := cmp.Diff(files(t, "deploy/crds/*.yaml"), files(t, "deploy/chart/crds/*.yaml")); diff != "" {
		t.Errorf("run make generate: deploy/crds (-) and deploy/chart/crds (+)\n%s", diff)
	}
	if n := len(load(t, folder).CRDObjects()); n != len(files(t, "deploy/crds/*.yaml")) {
		t.Errorf("helm install would create %d CRDs", n)
	}
}
