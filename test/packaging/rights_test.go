// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// components are the folders of deploy/rights, by the value of the chart.
var components = map[string]string{
	"placeholders": "placeholders", "provisioningRequests": "provisioning-requests", "oomRescue": "oom-rescue", "surges": "surges", "hpaTargets": "hpa-targets",
	"apiServerMetrics": "api-server-metrics", "nodeGuard": "node-guard", "nodeGroups": "node-groups", "namespaceOptIn": "namespace-opt-in", "kubeletMetrics": "kubelet-metrics",
}

// allRights are the assignments of values that add all rights.
var allRights = func() (out []string) {
	for _, key := range slices.Sorted(maps.Keys(components)) {
		out = append(out, "rights."+key+"=true")
	}
	return out
}()

// accountOf returns the end of the name of the account to which a value of the chart adds rights.
func accountOf(key string) string {
	if key == "namespaceOptIn" || key == "kubeletMetrics" {
		return "recommender"
	}
	return "updater"
}

// Each component and each value of the chart adds the rights of its folder and no others, to one account.
func TestRights_eachComponentAndValue_addsItsRights(t *testing.T) {
	folders, err := os.ReadDir(root + "/deploy/rights")
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) != len(components) {
		t.Errorf("deploy/rights has %d folders, %d are tested", len(folders), len(components))
	}
	deploy, chart := rights(t, build(t, root+"/deploy")), rights(t, render(t))
	single, one := rights(t, build(t, overlay(t, allInOne))), rights(t, render(t, "mode=single"))
	added := func(before, after []string) []string {
		return slices.DeleteFunc(slices.Clone(after), func(right string) bool { return slices.Contains(before, right) })
	}
	for key, folder := range components {
		account := accountOf(key)
		want := rights(t, files(t, "deploy/rights/"+folder+"/*.yaml"))["vpa-"+account]
		with := rights(t, build(t, overlay(t, "resources: [DEPLOY]\ncomponents: [DEPLOY/rights/"+folder+"]\n")))
		inOne := rights(t, build(t, overlay(t, "resources: [DEPLOY]\ncomponents: [DEPLOY/all-in-one, DEPLOY/rights/"+folder+"]\n")))
		charted, chartedOne := rights(t, render(t, "rights."+key+"=true")), rights(t, render(t, "rights."+key+"=true", "mode=single"))
		for name, got := range map[string][]string{
			"kustomize":             added(deploy["vpa-"+account], with["vpa-"+account]),
			"kustomize, all-in-one": added(single["podfit"], inOne["podfit"]),
			"chart":                 added(chart["vpa-vertical-pod-autoscaler-"+account], charted["vpa-vertical-pod-autoscaler-"+account]),
			"chart, single":         added(one["vpa-vertical-pod-autoscaler"], chartedOne["vpa-vertical-pod-autoscaler"]),
		} {
			want := added(map[string][]string{ // what the account may do already, such as list namespaces, is not added
				"kustomize": deploy["vpa-"+account], "kustomize, all-in-one": single["podfit"],
				"chart": chart["vpa-vertical-pod-autoscaler-"+account], "chart, single": one["vpa-vertical-pod-autoscaler"],
			}[name], want)
			if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
				t.Errorf("%s, %s: deploy/rights (-) and what is added (+)\n%s", folder, name, diff)
			}
		}
		for _, other := range []string{"vpa-recommender", "vpa-updater", "vpa-admission-controller"} {
			if diff := cmp.Diff(deploy[other], with[other]); diff != "" && other != "vpa-"+account {
				t.Errorf("%s adds rights of %s\n%s", folder, other, diff)
			}
		}
	}
}

// The policies that restrict the rights apply to the account that has the rights, and to no other of the release.
func TestRights_policies_restrictTheAccountThatHasTheRights(t *testing.T) {
	for name, tt := range map[string]struct {
		objects objects
		user    string
	}{
		"chart":         {render(t, allRights...), "== 'system:serviceaccount:kube-system:vpa-vertical-pod-autoscaler-ACCOUNT'"},
		"chart, single": {render(t, append(slices.Clone(allRights), "mode=single")...), "== 'system:serviceaccount:kube-system:vpa-vertical-pod-autoscaler'"},
		"kustomize":     {files(t, "deploy/rights/*/*.yaml"), ".matches('^system:serviceaccount:[^:]+:(vpa-ACCOUNT|podfit)$')"},
	} {
		bound := map[string]bool{}
		for _, b := range of[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, tt.objects, "ValidatingAdmissionPolicyBinding") {
			bound[b.Spec.PolicyName] = slices.Equal(b.Spec.ValidationActions, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny})
		}
		policies := of[admissionregistrationv1.ValidatingAdmissionPolicy](t, tt.objects, "ValidatingAdmissionPolicy")
		if len(policies) != 4 || len(bound) != 4 {
			t.Errorf("%s: %d policies and %d bindings", name, len(policies), len(bound))
		}
		for _, p := range policies {
			account := "updater"
			if strings.HasSuffix(p.Name, "namespace-opt-in") {
				account = "recommender"
			}
			user := strings.ReplaceAll(tt.user, "ACCOUNT", account)
			if c := p.Spec.MatchConditions; len(c) != 1 || !strings.HasSuffix(c[0].Expression, user) || *p.Spec.FailurePolicy != admissionregistrationv1.Fail || !bound[p.Name] {
				t.Errorf("%s: policy %s has the conditions %+v, and a binding: %t", name, p.Name, c, bound[p.Name])
			}
		}
	}
}

func TestRights_placeholderImage_isThatOfTheFlagAndThePolicy(t *testing.T) {
	all := render(t, "rights.placeholders=true", "rights.placeholderImage=mirror.example.com/pause:3.10")
	if args := deployment(t, all, "-updater").Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--placeholder-image=mirror.example.com/pause:3.10") {
		t.Errorf("arguments %q", args)
	}
	policy := of[admissionregistrationv1.ValidatingAdmissionPolicy](t, all, "ValidatingAdmissionPolicy")[0]
	if v := policy.Spec.Variables[0]; v.Name != "image" || v.Expression != "'mirror.example.com/pause:3.10'" {
		t.Errorf("variable %+v", v)
	}
	if flags := read(t, root+"/docs/flags.md"); !strings.Contains(flags, "`"+strings.Trim(of[admissionregistrationv1.ValidatingAdmissionPolicy](t,
		files(t, "deploy/rights/placeholders/*.yaml"), "ValidatingAdmissionPolicy")[0].Spec.Variables[0].Expression, "'")+"`") {
		t.Error("the image of the policy is not the default of --placeholder-image")
	}
}

func TestRights_onOldKubernetes_areRefusedWithTheRemedy(t *testing.T) {
	for key, restricted := range map[string]bool{"placeholders": true, "surges": true, "hpaTargets": true, "namespaceOptIn": true, "oomRescue": false, "provisioningRequests": false, "kubeletMetrics": false} {
		_, err := renderFor("v1.29.4", load(t, folder), vpaRelease(false), values(t, "rights."+key+"=true"))
		if refused := err != nil && strings.Contains(err.Error(), "rights."+key) && strings.Contains(err.Error(), "1.30"); refused != restricted {
			t.Errorf("%s: %v", key, err)
		}
	}
}
