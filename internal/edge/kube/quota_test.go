// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Only the refusal of a request for more than a quota has left depends on what other pods request.
func TestRefused_quotaAndLimitRange_onlyExceededQuotaDependsOnOtherPods(t *testing.T) {
	tests := map[string]struct{ quota, used bool }{
		"exceeded quota: compute, requested: cpu=1, used: cpu=2, limited: cpu=2":                                             {true, true},
		"failed quota: compute: must specify limits.cpu for: app":                                                            {true, false},
		"insufficient quota to consume: requests.cpu":                                                                        {true, false},
		"maximum cpu usage per Container is 1, but limit is 2":                                                               {true, false},
		`admission webhook "guard.example.com" denied the request: exceeded quota: team`:                                     {false, false},
		`violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "app" must set it to false)`: {false, false},
	}
	for text, want := range tests {
		err := Refused(&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: fmt.Sprintf("pods %q is forbidden: %s", "web-0", text),
		}})
		if quota, used := errors.Is(err, ErrQuota), errors.Is(err, ErrQuotaUsed); quota != want.quota || used != want.used || !IsRefusal(err) {
			t.Errorf("%s: quota %t, used by others %t, want %+v", text, quota, used, want)
		}
	}
}
