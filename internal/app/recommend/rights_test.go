// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"net/http"
	"strings"
	"testing"
)

const forbiddenReply = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"the user cannot list resource"}`

// A team that may read its namespace, but neither nodes nor SizingProfiles, gets the same workloads and requests as an admin.
func TestRecommend_teamReadsItsNamespaceOnly_numbersAreThoseOfAnAdmin(t *testing.T) {
	args := func(url string) []string {
		return []string{"--kubeconfig", kubeconfig(t, url), "--source", "cluster", "-n", "shop"}
	}
	admin := runCommand(t.Context(), args(shop(t).URL())...)
	f := shop(t)
	f.Reply("GET /api/v1/nodes", http.StatusForbidden, forbiddenReply)
	f.Reply("GET /apis/podfit.dev/v1alpha1/sizingprofiles", http.StatusForbidden, forbiddenReply)
	team := runCommand(t.Context(), args(f.URL())...)
	if admin.code != 0 || team.code != 0 || team.errs != "" {
		t.Fatalf("exit codes %d and %d, want 0; errors %q and %q", admin.code, team.code, admin.errs, team.errs)
	}
	for _, want := range []string{
		"1 workload, 3 pods ·", "1 workload is at risk. No requests can be freed.",
		"No right to list nodes, so it is not known how many could go", "No right to list SizingProfiles, so only the built-in profiles are known",
	} {
		if !strings.Contains(team.out, want) {
			t.Errorf("%q is missing in\n%s", want, team.out)
		}
	}
	_, want, _ := strings.Cut(admin.out, "AT RISK")
	_, got, _ := strings.Cut(team.out, "AT RISK")
	if got != want || !strings.Contains(got, "500m → 633m ▲  1.0Gi → 1.25Gi ▲") {
		t.Errorf("got\n%s\nwant the workloads of an admin\n%s", got, want)
	}
	if strings.Contains(team.out, "Incomplete") {
		t.Errorf("optional rights are missing, and the report is called incomplete:\n%s", team.out)
	}
}

func TestRecommend_requiredListIsForbidden_errorNamesTheFlagForANamespace(t *testing.T) {
	for path, scope := range map[string][]string{
		"GET /api/v1/pods": nil, "GET /apis/apps/v1/replicasets": nil, "GET /api/v1/namespaces/shop/pods": {"-n", "shop"},
	} {
		f := shop(t)
		f.Reply(path, http.StatusForbidden, forbiddenReply)
		r := runCommand(t.Context(), append(scope, "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster")...)
		if r.code != 1 || !strings.Contains(r.errs, "select a namespace that you may read with -n NAMESPACE") {
			t.Errorf("%s: exit code %d, error %s", path, r.code, r.errs)
		}
	}
}
