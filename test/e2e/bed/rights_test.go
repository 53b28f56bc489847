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
- {apiGroups: [""], resources: [nodes/stats], verbs: [get]}
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

// Each line is a request of an account: what it must be counted as used, or as refused.
func TestRights_requests_areMatchedWithGrants(t *testing.T) {
	line := func(user, verb, reference, decision string) string {
		return `{"verb":"` + verb + `","user":{"username":"` + user + `"},"requestURI":"/metrics?x=1",` + reference +
			`"annotations":{"authorization.k8s.io/decision":"` + decision + `"}}` + "\n"
	}
	const updater = accountPrefix + "vpa-updater"
	pods := `"objectRef":{"resource":"pods","namespace":"shop","name":"web"},`
	lease := func(ns, name string) string {
		return `"objectRef":{"apiGroup":"coordination.k8s.io","resource":"leases","namespace":"` + ns + `","name":"` + name + `"},`
	}
	review := func(user, subresource, allowed string) string {
		spec := `"spec":{"user":"` + user + `","resourceAttributes":{"verb":"get","resource":"nodes","subresource":"` + subresource + `","name":"node-1"}}`
		return `{"verb":"create","user":{"username":"system:node:node-1"},"objectRef":{"apiGroup":"authorization.k8s.io","resource":"subjectaccessreviews"},` +
			`"requestObject":{` + spec + `},"responseObject":{` + spec + `,"status":{"allowed":` + allowed + `}},"annotations":{"authorization.k8s.io/decision":"allow"}}` + "\n"
	}
	for name, c := range map[string]struct{ line, used, refused string }{
		"list":                  {line: line(updater, "list", pods, "allow"), used: updaterListsPods},
		"another verb":          {line: line(updater, "get", pods, "allow")},
		"another account":       {line: line(accountPrefix+"vpa-recommender", "list", pods, "allow")},
		"a person":              {line: line("jane", "delete", pods, "forbid")},
		"a path":                {line: line(updater, "get", "", "allow"), used: updaterReadsMetrics},
		"refused":               {line: line(updater, "delete", pods, "forbid"), refused: "vpa-updater: delete pods in shop"},
		"taken away":            {line: line(updater, "list", pods, "forbid")},
		"scale of any kind":     {line: line(updater, "get", `"objectRef":{"apiGroup":"a.b","resource":"things","subresource":"scale"},`, "allow"), used: updaterReadsScale},
		"a name":                {line: line(updater, "update", lease("kube-system", "b"), "allow"), used: updaterUpdatesB},
		"another name":          {line: line(updater, "update", lease("kube-system", "c"), "allow")},
		"another namespace":     {line: line(updater, "update", lease("shop", "a"), "allow")},
		"an incomplete line":    {line: strings.TrimSuffix(line(updater, "list", pods, "allow"), "\"}}\n")},
		"at a kubelet":          {line: review(updater, "stats", "true"), used: updaterReadsStats},
		"refused at a kubelet":  {line: review(updater, "proxy", "false"), refused: "vpa-updater: get nodes/proxy"},
		"no answer there":       {line: strings.Replace(review(updater, "stats", "false"), `"status":{"allowed":false}}`, `"status":"Failure"},"responseStatus":{"code":504}`, 1)},
		"taken away there":      {line: review(updater, "stats", "false")},
		"a person at a kubelet": {line: review("jane", "stats", "false")},
		"a subresource, alone":  {line: line(updater, "list", `"objectRef":{"resource":"pods","subresource":"status"},`, "allow")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rightsOf(strings.NewReader(c.line), someGrants(t))
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
