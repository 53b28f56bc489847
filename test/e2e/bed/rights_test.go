// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const someRoles = `
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
- {apiGroups: [""], resources: [nodes/stats], verbs: [get]}
- {apiGroups: ["*"], resources: ["*/scale"], verbs: [get]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: lease, namespace: kube-system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [a, b], verbs: [update]}
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: vpa-updater, namespace: kube-system}]
---
kind: RoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: lease, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lease}
subjects: [{kind: ServiceAccount, name: vpa-updater, namespace: kube-system}]
`

const (
	updaterListsPods    = "vpa-updater: list pods"
	updaterWatchesPods  = "vpa-updater: watch pods"
	updaterReadsMetrics = "vpa-updater: get /metrics"
	updaterReadsStats   = "vpa-updater: get nodes/stats"
	updaterReadsScale   = "vpa-updater: get */scale.*"
	updaterUpdatesA     = "vpa-updater: update leases.coordination.k8s.io named a in kube-system"
	updaterUpdatesB     = "vpa-updater: update leases.coordination.k8s.io named b in kube-system"
)

func someGrants(t *testing.T) []Grant {
	t.Helper()
	manifests, err := Parse([]byte(someRoles))
	if err != nil {
		t.Fatal(err)
	}
	granted, err := Granted(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return granted
}

func TestGranted_roles_eachCombinationIsAGrant(t *testing.T) {
	var got []string
	for _, g := range someGrants(t) {
		got = append(got, g.String())
	}
	want := []string{updaterReadsScale, updaterReadsMetrics, updaterReadsStats, updaterListsPods, updaterUpdatesA, updaterUpdatesB, updaterWatchesPods}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each line is a request of an account, or of a kubelet about one: what it must be counted as used, or as refused.
func TestRights_requests_areMatchedWithGrants(t *testing.T) {
	line := func(user, verb, reference, decision string) string {
		return `{"verb":"` + verb + `","user":{"username":"` + user + `"},"requestURI":"/metrics?x=1","requestReceivedTimestamp":"2026-11-22T01:44:13Z",` + reference +
			`"annotations":{"authorization.k8s.io/decision":"` + decision + `"}}` + "\n"
	}
	asked := func(user, account string, allowed bool) string {
		return line(user, "create", fmt.Sprintf(`"objectRef":{"apiGroup":"authorization.k8s.io","resource":"subjectaccessreviews"},"responseObject":{"spec":{"user":%q,`+
			`"resourceAttributes":{"verb":"get","resource":"nodes","subresource":"stats","name":"node-1"}},"status":{"allowed":%t}},`, accountPrefix+account, allowed), "allow")
	}
	started := time.Date(2026, 11, 22, 1, 44, 10, 0, time.UTC)
	known := Cluster{}
	known.ExpectRefused("vpa-updater: create pods")
	known.refusals.settling = [][2]time.Time{{started, started.Add(settle)}}
	const updater = accountPrefix + "vpa-updater"
	later := func(line string) string { return strings.Replace(line, "T01:44:", "T01:45:", 1) }
	pods := `"objectRef":{"resource":"pods","namespace":"shop","name":"web"},`
	lease := func(ns, name string) string {
		return `"objectRef":{"apiGroup":"coordination.k8s.io","resource":"leases","namespace":"` + ns + `","name":"` + name + `"},`
	}
	for name, c := range map[string]struct{ line, used, refused string }{
		"list":            {line: line(updater, "list", pods, "allow"), used: updaterListsPods},
		"another verb":    {line: line(updater, "get", pods, "allow")},
		"another account": {line: line(accountPrefix+"vpa-recommender", "list", pods, "allow")},
		"a person":        {line: line("jane", "delete", pods, "forbid")},
		"a path":          {line: line(updater, "get", "", "allow"), used: updaterReadsMetrics},
		"refused":         {line: line(updater, "delete", pods, "forbid"), refused: "vpa-updater: delete pods in shop"},
		"taken away":      {line: later(line(updater, "list", pods, "forbid")), refused: "vpa-updater: list pods in shop"},
		"not known yet":   {line: line(updater, "list", pods, "forbid")},
		"expected":        {line: line(updater, "create", pods, "forbid")},
		"own policy": {
			line:    strings.Replace(later(line(updater, "list", pods, "allow")), `"objectRef"`, `"responseStatus":{"code":403,"message":"pods is forbidden: ValidatingAdmissionPolicy 'podfit-surges' denied"},"objectRef"`, 1),
			refused: "vpa-updater: list pods in shop",
		},
		"another policy": {
			line: strings.Replace(later(line(updater, "list", pods, "allow")), `"objectRef"`, `"responseStatus":{"code":403,"message":"ValidatingAdmissionPolicy 'other' denied"},"objectRef"`, 1),
			used: updaterListsPods,
		},
		"asked by a kubelet":   {line: asked("system:node:node-1", "vpa-updater", true), used: updaterReadsStats},
		"denied to a kubelet":  {line: asked("system:node:node-1", "vpa-updater", false)},
		"refused at a kubelet": {line: strings.ReplaceAll(asked("system:node:node-1", "vpa-updater", false), "stats", "proxy"), refused: "vpa-updater: get nodes/proxy"},
		"no answer there":      {line: strings.Replace(asked("system:node:node-1", "vpa-updater", false), `"objectRef"`, `"responseStatus":{"code":504},"objectRef"`, 1)},
		"asked about another":  {line: asked("system:node:node-1", "stranger", true)},
		"asked by a person":    {line: asked("jane", "vpa-updater", true)},
		"scale of any kind":    {line: line(updater, "get", `"objectRef":{"apiGroup":"a.b","resource":"things","subresource":"scale"},`, "allow"), used: updaterReadsScale},
		"a name":               {line: line(updater, "update", lease("kube-system", "b"), "allow"), used: updaterUpdatesB},
		"another name":         {line: line(updater, "update", lease("kube-system", "c"), "allow")},
		"another namespace":    {line: line(updater, "update", lease("shop", "a"), "allow")},
		"an incomplete line":   {line: strings.TrimSuffix(line(updater, "list", pods, "allow"), "\"}}\n")},
		"a subresource, alone": {line: line(updater, "list", `"objectRef":{"resource":"pods","subresource":"status"},`, "allow")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rightsOf(strings.NewReader(c.line), someGrants(t), &known.refusals)
			if err != nil {
				t.Fatal(err)
			}
			used, refused := strings.Join(slices.Sorted(maps.Keys(got.Used)), ", "), strings.Join(slices.Sorted(maps.Keys(got.Refused)), ", ")
			if used != c.used || refused != c.refused {
				t.Errorf("used %q and refused %q, want %q and %q", used, refused, c.used, c.refused)
			}
		})
	}
}

// Without a name, there is no component. An unknown name is an error.
func TestManifests_components_areOnlyTheNamedOnes(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	deploy := filepath.Join(root, "deploy")
	all, err := Components(deploy)
	if err != nil || len(all) < 10 {
		t.Fatalf("components %q, error %v", all, err)
	}
	roles := func(components ...string) (found []string) {
		manifests, err := Manifests(deploy, components...)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range manifests {
			if name, isOwn := strings.CutPrefix(o.GetName(), "podfit:"); isOwn && o.GetKind() == "ClusterRole" && slices.Contains(all, name) {
				found = append(found, name)
			}
		}
		return found
	}
	if got := roles(); len(got) > 0 {
		t.Errorf("the default rights have the roles of %q", got)
	}
	if got := roles("surges", "oom-rescue"); !slices.Equal(got, []string{"surges", "oom-rescue"}) {
		t.Errorf("got the roles of %q", got)
	}
	if got := roles(all...); !slices.Equal(got, all) {
		t.Errorf("got the roles of %q, want %q", got, all)
	}
	if _, err := Manifests(deploy, "unknown"); err == nil {
		t.Error("an unknown component is accepted")
	}
	if _, err := Manifests(filepath.Join(deploy, "all-in-one"), "surges"); err != nil {
		t.Errorf("a folder without components: %v", err)
	}
}
