// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/test/kubetest"
)

// Row 18 of docs/decisions/0007.
func TestInTime_readIgnoresItsContext_endsAfterTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, release := time.Now(), make(chan struct{})
		values := inTime(t.Context(), func(context.Context) []string {
			<-release
			return []string{"late"}
		})
		if waited := time.Since(begun); waited != completionTimeout || values != nil {
			t.Errorf("got %v after %v, want nothing after %v", values, waited, completionTimeout)
		}
		close(release)
		synctest.Wait()
	})
}

// clusterWith serves the metadata of objects by path, and 403 for other paths.
func clusterWith(t *testing.T, names map[string][]string) (kubeconfig string) {
	t.Helper()
	f := kubetest.NewFakeAPI(t)
	f.Handle(func(w http.ResponseWriter, _ *http.Request, q kubetest.Request) bool {
		list, ok := names[q.Path]
		if !ok {
			kubetest.Respond(w, http.StatusForbidden, kubetest.Failure(http.StatusForbidden, "Forbidden", ""))
			return true
		}
		var items []string
		for _, name := range list {
			items = append(items, `{"metadata":{"name":"`+name+`"}}`)
		}
		kubetest.Respond(w, http.StatusOK, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[`+strings.Join(items, ",")+`]}`)
		return true
	})
	return kubeconfigOf(t, f.URL())
}

// completed returns what a shell offers for the last argument.
func completed(t *testing.T, args ...string) []string {
	t.Helper()
	root := &cobra.Command{Use: "podfit"}
	c := &cobra.Command{Use: "explain KIND/NAME", Run: func(*cobra.Command, []string) {}}
	c.Flags().String("kubeconfig", "", "")
	c.Flags().String("context", "", "")
	c.Flags().StringSliceP("namespace", "n", nil, "")
	CompleteFromCluster(c)
	root.AddCommand(c)
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&strings.Builder{})
	root.SetArgs(append([]string{"__complete", "explain"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1] // the last is the directive
}

// Row 18 of docs/decisions/0007.
func TestCompleteFromCluster_namesOfTheCluster_areOffered(t *testing.T) {
	kubeconfig := clusterWith(t, map[string][]string{
		"/api/v1/namespaces":                                 {"lab", "shop", "shopping"},
		"/apis/apps/v1/deployments":                          {"web", "cart", "web"},
		"/apis/apps/v1/namespaces/shop/deployments":          {"cart"},
		"/apis/apps/v1/statefulsets":                         {"ledger"},
		"/apis/autoscaling.k8s.io/v1/verticalpodautoscalers": {"cart"},
		"/api/v1/namespaces/shop/pods":                       {"cart-0"},
		"/api/v1/nodes":                                      {"n7"},
		// The other kinds may not be read.
	})
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"-n", ""}, []string{"lab", "shop", "shopping"}},
		{[]string{"-n", "sho"}, []string{"shop", "shopping"}},
		{[]string{"--namespace=shop,"}, []string{"shop,lab", "shop,shopping"}},
		{[]string{"--context", ""}, []string{"c"}},
		{[]string{""}, []string{"deploy/cart", "deploy/web", "sts/ledger"}},
		{[]string{"deploy/c"}, []string{"deploy/cart"}},
		{[]string{"deployment/"}, []string{"deployment/cart", "deployment/web"}},
		{[]string{"-n", "shop", ""}, []string{"deploy/cart"}},
		{[]string{"-n", "nowhere", ""}, nil},
		{[]string{"depl"}, []string{"deploy/cart", "deploy/web"}},
		{[]string{"deploym"}, []string{"deployment/cart", "deployment/web"}},
		{[]string{"vpa/"}, []string{"vpa/cart"}},
		{[]string{"-n", "shop", "pod/c"}, []string{"pod/cart-0"}},
		{[]string{"-n", "shop", "node/"}, []string{"node/n7"}},
		{[]string{"secret/"}, nil},
	} {
		if got := completed(t, append([]string{"--kubeconfig", kubeconfig}, tt.args...)...); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, want %q", tt.args, got, tt.want)
		}
	}
}

// Row 18 of docs/decisions/0007.
func TestCompleteFromCluster_clusterIsUnusable_offersNothing(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, kubeconfig := range map[string]string{
		"denied": clusterWith(t, nil), "not reached": kubeconfigOf(t, gone.URL), "no kubeconfig": "/nowhere/config",
	} {
		for _, args := range [][]string{{"-n", ""}, {""}} {
			if got := completed(t, append([]string{"--kubeconfig", kubeconfig}, args...)...); len(got) != 0 {
				t.Errorf("%s: %q offers %q, want nothing", name, args, got)
			}
		}
	}
}

func TestCompleteFromCluster_completionIsSet_staysAsItIs(t *testing.T) {
	c := &cobra.Command{Use: "x"}
	c.Flags().String("namespace", "", "")
	CompleteFlag(c, "namespace", "own")
	CompleteFromCluster(c)
	complete, _ := c.GetFlagCompletionFunc("namespace")
	if got, _ := complete(c, nil, ""); !slices.Equal(got, []string{"own"}) || c.ValidArgsFunction != nil {
		t.Errorf("got %q", got)
	}
}

// After a value of a list, a comma may follow, so the shell adds no space.
func TestCompleteFlag_typeOfTheFlag_decidesWhetherASpaceFollows(t *testing.T) {
	for name, define := range map[string]func(*pflag.FlagSet){
		"list":  func(fs *pflag.FlagSet) { fs.StringSlice("x", nil, "") },
		"value": func(fs *pflag.FlagSet) { fs.String("x", "", "") },
	} {
		c := &cobra.Command{Use: "x"}
		define(c.Flags())
		CompleteFlag(c, "x", "one", "two")
		complete, _ := c.GetFlagCompletionFunc("x")
		_, directive := complete(c, nil, "")
		if noSpace := directive&cobra.ShellCompDirectiveNoSpace != 0; noSpace != (name == "list") || directive&cobra.ShellCompDirectiveNoFileComp == 0 {
			t.Errorf("%s: directive %v", name, directive)
		}
	}
}
