// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/test/kubetest"
)

const deniedReply = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`

// podfit recommend, podfit explain and the page give the same reason why a workload is not judged, and none of them praises its requests or
// recommends others.
func TestUnjudged_youngOrUnreadUsage_recommendExplainAndPageSayTheSame(t *testing.T) {
	for name, tt := range map[string]struct {
		span, step time.Duration
		forbidden  string
		want       string
	}{
		"three hours":          {3 * time.Hour, time.Minute, "", "not enough usage: 3 hours, 6 are needed"},
		"checkpoints unread":   {14 * 24 * time.Hour, 5 * time.Minute, "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints", review.UnreadUsage},
		"usage history unread": {14 * 24 * time.Hour, 5 * time.Minute, "/apis/podfit.dev/v1alpha1/namespaces/shop/usagehistories", review.UnreadUsage},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, 2)
			s.storeFor(tt.span, tt.step, 300)
			s.vpa("Off", `,"recommenders":[{"name":"balanced"}]`)
			if tt.forbidden != "" {
				s.api.Reply("GET "+tt.forbidden, http.StatusForbidden, deniedReply)
			}
			explained := strings.Join(strings.Fields(s.text("deploy/cart")), " ")
			if !strings.Contains(explained, "The recommendation is not judged yet: "+tt.want+".") || strings.Contains(explained, `"updateMode":"InPlaceOrRecreate"`) {
				t.Errorf("podfit explain: no %q, or it urges to apply the recommendation:\n%s", tt.want, explained)
			}
			for _, form := range []string{"table", "json"} {
				out, stderr, code := call(t, "podfit", "recommend", "--kubeconfig="+s.kubeconfig(), "--source=cluster", "-n", "shop", "--sort=name", "-o", form)
				if wantCode := map[bool]int{true: exitOK, false: 3}[tt.forbidden == ""]; code != wantCode || !strings.Contains(out, tt.want) ||
					strings.Contains(out, "No workload is at risk") || strings.Contains(out, "→") || strings.Contains(out, `"target": "600m"`) {
					t.Errorf("podfit recommend: exit code %d, %s, no %q, or a recommendation:\n%s", code, stderr, tt.want, out)
				}
				if young := map[string]string{"table": ", young 600m", "json": `"youngTarget": "600m"`}[form]; strings.Contains(out, young) != (tt.forbidden == "") {
					t.Errorf("podfit recommend: %s: %v, want %v:\n%s", young, tt.forbidden != "", tt.forbidden == "", out)
				}
			}
			const leftOut = "Numbers from less than 6 hours of usage are not in the manifests (--include-young)."
			for _, form := range []string{"kustomize", "json"} {
				_, stderr, _ := call(t, "podfit", "recommend", "--kubeconfig="+s.kubeconfig(), "--source=cluster", "-n", "shop", "-o", form)
				if want := form == "kustomize" && tt.forbidden == ""; strings.Contains(stderr, leftOut) != want {
					t.Errorf("podfit recommend -o %s: says that young numbers are left out: %t, want %t:\n%s", form, !want, want, stderr)
				}
			}
			root := servePage(t, s.api.URL())
			page := ""
			kubetest.Eventually(t, "the page says why the workload is not judged", func() bool {
				page = html.UnescapeString(readPage(t, root+"workloads/shop/Deployment/cart"))
				return strings.Contains(page, "ot judged yet: "+tt.want+".") && strings.Contains(page, "Not known yet: "+tt.want+".") // the latter instead of a patch
			})
			if table := html.UnescapeString(readPage(t, root+"workloads")); strings.Contains(table, "(young 600m)") != (tt.forbidden == "") ||
				strings.Contains(table, "young: from 3 h of usage") != (tt.forbidden == "") || strings.Contains(page, "young: from 3 h of usage") != (tt.forbidden == "") {
				t.Errorf("the page shows a number and its age: %v, want %v:\n%s\n%s", tt.forbidden != "", tt.forbidden == "", table, page)
			} else if grey := strings.Contains(table, `<td class="sub">400m (young 600m)`) && strings.Contains(page, `<b class="sub">600m</b>`); grey != (tt.forbidden == "") {
				t.Errorf("the young numbers are grey: %v:\n%s\n%s", grey, table, page)
			}
			page += html.UnescapeString(readPage(t, root))
			if !strings.Contains(page, "Not judged: 1 workload: "+tt.want+".") || !strings.Contains(page, "Could be given back: not known yet") {
				t.Errorf("the overview does not say what is not known:\n%s", page)
			}
			for _, praise := range []string{"No workload of", "No risk", "within the bounds", "nothing to change", `id="yaml"`, "No request is above its target"} {
				if strings.Contains(page, praise) {
					t.Errorf("the page says %q of a workload that is not judged:\n%s", praise, page)
				}
			}
		})
	}
}
