// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const someRoles = `
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
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
	want := []string{updaterReadsScale, updaterReadsMetrics, updaterListsPods, updaterUpdatesA, updaterUpdatesB, updaterWatchesPods}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each line is a request of an account: what it must be counted as.
func TestRefused_requests_areMatchedWithGrants(t *testing.T) {
	line := func(user, verb, reference, decision string) string {
		return `{"verb":"` + verb + `","user":{"username":"` + user + `"},"requestURI":"/metrics?x=1",` + reference +
			`"annotations":{"authorization.k8s.io/decision":"` + decision + `"}}` + "\n"
	}
	const updater = accountPrefix + "vpa-updater"
	pods := `"objectRef":{"resource":"pods","namespace":"shop","name":"web"},`
	lease := func(ns, name string) string {
		return `"objectRef":{"apiGroup":"coordination.k8s.io","resource":"leases","namespace":"` + ns + `","name":"` + name + `"},`
	}
	for name, c := range map[string]struct{ line, refused string }{
		"allowed":              {line(updater, "delete", pods, "allow"), ""},
		"refused":              {line(updater, "delete", pods, "forbid"), "vpa-updater: delete pods in shop"},
		"taken away":           {line(updater, "list", pods, "forbid"), ""},
		"of another account":   {line(accountPrefix+"vpa-recommender", "list", pods, "forbid"), "vpa-recommender: list pods in shop"},
		"of a person":          {line("jane", "delete", pods, "forbid"), ""},
		"a path":               {line(updater, "get", "", "forbid"), ""},
		"another path":         {strings.Replace(line(updater, "get", "", "forbid"), "/metrics", "/logs", 1), "vpa-updater: get /logs"},
		"scale of any kind":    {line(updater, "get", `"objectRef":{"apiGroup":"a.b","resource":"things","subresource":"scale"},`, "forbid"), ""},
		"a name":               {line(updater, "update", lease("kube-system", "b"), "forbid"), ""},
		"another name":         {line(updater, "update", lease("kube-system", "c"), "forbid"), "vpa-updater: update leases.coordination.k8s.io in kube-system"},
		"another namespace":    {line(updater, "update", lease("shop", "a"), "forbid"), "vpa-updater: update leases.coordination.k8s.io in shop"},
		"an incomplete line":   {strings.TrimSuffix(line(updater, "delete", pods, "forbid"), "\"}}\n"), ""},
		"a subresource, alone": {line(updater, "list", `"objectRef":{"resource":"pods","subresource":"status"},`, "forbid"), "vpa-updater: list pods/status"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := refusedIn(strings.NewReader(c.line), someGrants(t))
			if err != nil {
				t.Fatal(err)
			}
			if refused := strings.Join(slices.Sorted(maps.Keys(got)), ", "); refused != c.refused {
				t.Errorf("refused %q, want %q", refused, c.refused)
			}
		})
	}
}
