// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The manifest of the web page gives podfit no right that changes objects: reviews only ask a question.
func TestWebManifest_role_writesNothing(t *testing.T) {
	text, err := os.ReadFile("../../deploy/web/podfit-web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs := strings.Split(string(text), "\n---\n")
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	var service corev1.Service
	for i, into := range []any{&role, &binding, &service} {
		if err := yaml.UnmarshalStrict([]byte(docs[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			isReview := !slices.ContainsFunc(rule.Resources, func(r string) bool { return !strings.HasSuffix(r, "reviews") })
			if verb != "get" && verb != "list" && verb != "watch" && !isReview {
				t.Errorf("the role allows %s of %v", verb, rule.Resources)
			}
		}
	}
	if binding.RoleRef.Name != role.Name || len(binding.Subjects) != 1 || binding.Subjects[0].Name != "podfit" {
		t.Errorf("the binding binds %v to %s", binding.Subjects, binding.RoleRef.Name)
	}
	if len(docs) != 3 || service.Spec.Selector["app"] != "podfit" || service.Spec.Ports[0].TargetPort.IntValue() != 8945 {
		t.Errorf("%d objects, service %+v", len(docs), service.Spec)
	}
}
