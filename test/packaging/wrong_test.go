// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// fixed are assignments that replace upstream's images, which --reuse-values brings along.
var fixed = []string{
	"recommender.image.repository=ghcr.io/podfit/podfit", "recommender.image.tag=0.1.0",
	"updater.image.repository=ghcr.io/podfit/podfit", "updater.image.tag=0.1.0",
	"admissionController.image.repository=ghcr.io/podfit/podfit", "admissionController.image.tag=0.1.0",
}

func TestChart_valuesOfUpstreamReused_objectsAreComplete(t *testing.T) {
	for name, previous := range previousCharts(t) {
		for config, set := range map[string][]string{
			"defaults":     nil,
			"own settings": {"recommender.extraArgs[0]=--recommendation-margin-fraction=0.3", "updater.replicas=3", "admissionController.tls.secretName=other", "podSecurityContext=null"},
		} {
			_, err := reuse(t, previous, values(t, set...))
			for _, want := range fixed[:2] {
				if err == nil || !strings.Contains(err.Error(), "--set "+want) {
					t.Errorf("%s, %s: the error does not name --set %s: %v", name, config, want, err)
				}
			}
			rendered, err := reuse(t, previous, values(t, set...), fixed...)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, config, err)
			}
			all := manifest(t, rendered)
			crds := 0
			for _, o := range all {
				if o.GetKind() == "CustomResourceDefinition" {
					crds++
					if o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
						t.Errorf("%s: helm uninstall would delete %s", name, id(o))
					}
				}
			}
			if want := len(load(t, folder).CRDObjects()); crds != want { // there is no cluster, so none exists
				t.Errorf("%s: an upgrade creates %d CRDs, want %d", name, crds, want)
			}
			// All objects that a new installation has, apart from CRDs.
			fresh := render(t)
			for _, want := range fresh.ids() {
				if !slices.Contains(all.ids(), want) {
					t.Errorf("%s, %s: no %s", name, config, want)
				}
			}
			// The certificates of upstream's job do not exist in every installation, so no volume refers to their keys.
			if v := deployment(t, all, "-admission-controller").Spec.Template.Spec.Volumes; len(v) > 0 {
				t.Errorf("%s, %s: volumes %v", name, config, v)
			}
			if got := deployment(t, all, "-updater").Spec.Replicas; config == "own settings" && *got != 3 {
				t.Errorf("%s: %d replicas of the updater", name, *got)
			}
			if args := deployment(t, all, "-recommender").Spec.Template.Spec.Containers[0].Args; config == "own settings" && !slices.Contains(args, "--recommendation-margin-fraction=0.3") {
				t.Errorf("%s: arguments of the recommender %v", name, args)
			}
		}
	}
}

// previousCharts returns upstream's chart, and one without the keys that its newer releases have added.
func previousCharts(t *testing.T) map[string]*chart.Chart {
	older := upstream(t)
	delete(older.Values, "crds")
	for _, section := range []string{"recommender", "updater", "admissionController"} {
		v := older.Values[section].(map[string]any)
		delete(v, "logLevel")
		delete(v, "topologySpreadConstraints")
		delete(v, "certManager")
	}
	return map[string]*chart.Chart{"chart 0.13": upstream(t), "chart 0.9": older}
}

func TestChart_certificatesOfUser_areMountedAndReloaded(t *testing.T) {
	userVolumes := []string{
		"admissionController.certGen.enabled=false",
		"admissionController.volumes[0].name=tls-certs", "admissionController.volumes[0].secret.secretName=mine",
		"admissionController.volumeMounts[0].name=tls-certs", "admissionController.volumeMounts[0].mountPath=/etc/tls-certs",
	}
	for name, tt := range map[string]struct {
		set    []string
		secret string
		key    string // of the serving certificate in the Secret
	}{
		"own certificates": {nil, "", ""},
		"files":            {userVolumes, "mine", ""},
		"cert-manager":     {[]string{"admissionController.certManager.enabled=true", "admissionController.certManager.issuerRef.name=ca"}, "vpa-tls-certs", "tls.crt"},
		"created":          {[]string{"admissionController.tls.create=true", "admissionController.tls.caCert=a", "admissionController.tls.cert=b", "admissionController.tls.key=c"}, "vpa-tls-certs", "cert"},
	} {
		for _, mode := range []string{"separate", "single"} {
			all := render(t, append(tt.set, "mode="+mode)...)
			suffix := map[string]string{"separate": "-admission-controller", "single": "vertical-pod-autoscaler"}[mode]
			pod := deployment(t, all, suffix).Spec.Template.Spec
			reloads := slices.Contains(pod.Containers[0].Args, "--reload-cert=true")
			// Only podfit's own certificates are in a Secret that podfit may write.
			writes := strings.Contains(strings.Join(slices.Concat(slices.Collect(maps.Values(rights(t, all)))...), "\n"), "secrets[vpa-tls-certs]: update")
			if tt.secret == "" {
				if len(pod.Volumes) > 0 || reloads || !writes {
					t.Errorf("%s, %s: volumes %v, reloads %t, may write the Secret %t", name, mode, pod.Volumes, reloads, writes)
				}
				continue
			}
			if len(pod.Volumes) != 1 || pod.Volumes[0].Secret.SecretName != tt.secret || len(pod.Containers[0].VolumeMounts) != 1 || !reloads || writes {
				t.Errorf("%s, %s: volumes %v, mounts %v, reloads %t, may write the Secret %t", name, mode, pod.Volumes, pod.Containers[0].VolumeMounts, reloads, writes)
				continue
			}
			if tt.key != "" && pod.Volumes[0].Secret.Items[1].Key != tt.key {
				t.Errorf("%s: items %v", name, pod.Volumes[0].Secret.Items)
			}
		}
	}
}

func TestChart_wrongValue_isRefusedWithTheRemedy(t *testing.T) {
	for name, tt := range map[string]struct {
		set  []string
		want []string // parts of the error
	}{
		"unknown mode":                  {[]string{"mode=both"}, []string{"mode", "'separate', 'single'"}},
		"misspelled key":                {[]string{"recomender.replicas=2"}, []string{"recomender", "not allowed"}},
		"misspelled key of a component": {[]string{"updater.replica=2"}, []string{"/updater", "replica", "not allowed"}},
		"string instead of number":      {[]string{"updater.replicas=two"}, []string{"/updater/replicas", "want null or integer"}},
		"argument as text":              {[]string{"updater.extraArgs=--v=5"}, []string{"/updater/extraArgs", "want null or array"}},
		"duration without unit":         {[]string{"updater.leaderElection.leaseDuration=15x"}, []string{"/updater/leaderElection/leaseDuration", "15x"}},
		"time-out too long":             {[]string{"admissionController.mutatingWebhookConfiguration.timeoutSeconds=60"}, []string{"timeoutSeconds", "maximum", "30"}},
		"unknown failure policy":        {[]string{"admissionController.mutatingWebhookConfiguration.failurePolicy=Deny"}, []string{"failurePolicy", "'Ignore', 'Fail'"}},
		"digest without algorithm":      {[]string{"updater.image.digest=abc"}, []string{"/updater/image/digest"}},
		"image of upstream":             {[]string{"updater.image.repository=registry.k8s.io/autoscaling/vpa-updater"}, []string{"--set updater.image.repository=ghcr.io/podfit/podfit", "--set updater.image.tag=0.1.0"}},
		"image of upstream in a mirror": {[]string{"recommender.image.repository=mirror.example.com/autoscaling/vpa-recommender"}, []string{"--set recommender.image.repository="}},
		"CRDs not kept":                 {[]string{"crds.keep=false"}, []string{"delete", "crds.keep=true"}},
		"two bounds of a budget":        {[]string{"updater.podDisruptionBudget.maxUnavailable=1"}, []string{"updater.podDisruptionBudget", "null"}},
		"several leaders":               {[]string{"recommender.leaderElection.enabled=false"}, []string{"recommender.replicas=1", "leaderElection.enabled"}},
		"web page of several processes": {[]string{"web.enabled=true"}, []string{"mode=single", "podfit web"}},
		"web page with unknown login":   {[]string{"mode=single", "web.enabled=true", "web.auth=basic"}, []string{"/web/auth", "'token', 'header', 'none'"}},
		"component disabled in one":     {[]string{"mode=single", "updater.enabled=false"}, []string{"updater.enabled=true", "mode=separate"}},
		"two sources of certificates":   {[]string{"admissionController.certManager.enabled=true", "admissionController.certManager.issuerRef.name=ca", "admissionController.tls.create=true"}, []string{"certManager.enabled", "tls.create", "false"}},
		"cert-manager without issuer":   {[]string{"admissionController.certManager.enabled=true"}, []string{"issuerRef.name", "createSelfSignedIssuer.enabled=true"}},
		"cert-manager without reload":   {[]string{"admissionController.certManager.enabled=true", "admissionController.certManager.issuerRef.name=ca", "admissionController.extraArgs[0]=--reload-cert=false"}, []string{"--reload-cert=false", "Remove"}},
		"certificates missing":          {[]string{"admissionController.tls.create=true"}, []string{"--set-file", "tls.create=false"}},
		"history without Prometheus":    {[]string{"prometheus.history=true"}, []string{"prometheus.address"}},
		"token without Prometheus":      {[]string{"prometheus.bearerTokenSecret.name=x"}, []string{"prometheus.address"}},
		"address of Prometheus":         {[]string{"prometheus.address=prometheus:9090"}, []string{"/prometheus/address"}},
		"profile without spec":          {[]string{"profiles[0].name=x"}, []string{"/profiles/0", "spec"}},
	} {
		_, err := renderFiles(load(t, folder), vpaRelease(false), values(t, tt.set...))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error lacks %q:\n%v", name, want, err)
			}
		}
	}
}

func TestChart_oldKubernetes_isRefused(t *testing.T) {
	constraint := load(t, folder).Metadata.KubeVersion
	for version, want := range map[string]bool{"v1.27.16": false, "v1.28.0": true, "v1.33.4-gke.100": true, "v1.36.3": true} {
		if got := chartutil.IsCompatibleRange(constraint, version); got != want {
			t.Errorf("%s is allowed: %t", version, got)
		}
	}
	if readme := read(t, filepath.Join(root, "README.md")); !strings.Contains(readme, "Kubernetes 1.28 or later") {
		t.Error("README.md names another version than the chart")
	}
}

func TestChart_notes_nameTheNextCommands(t *testing.T) {
	for name, tt := range map[string]struct {
		upgrade bool
		set     []string
		want    []string
		lacks   []string
	}{
		"installation":           {false, nil, []string{"kubectl -n kube-system get deployments", "kubectl get vpa --all-namespaces", "certGen has no effect", "keeps the CRDs"}, []string{"podfit crds"}},
		"upgrade":                {true, nil, []string{"podfit crds | kubectl apply --server-side --force-conflicts -f -"}, nil},
		"failure policy":         {false, []string{"admissionController.mutatingWebhookConfiguration.failurePolicy=Fail"}, []string{"WARNING", "failurePolicy"}, nil},
		"no registration":        {false, []string{"admissionController.extraArgs[0]=--register-webhook=false"}, []string{"WARNING", "--register-webhook=false"}, nil},
		"no admission":           {false, []string{"admissionController.enabled=false"}, []string{"--use-admission-controller-status=false"}, []string{"certGen"}},
		"CRDs managed by others": {false, []string{"crds.enabled=false"}, []string{"podfit crds | kubectl apply --server-side --force-conflicts -f -"}, nil},
	} {
		rendered, err := renderFiles(load(t, folder), vpaRelease(tt.upgrade), values(t, tt.set...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		notes := rendered["podfit/templates/NOTES.txt"]
		for _, want := range tt.want {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: the notes lack %q:\n%s", name, want, notes)
			}
		}
		for _, not := range tt.lacks {
			if strings.Contains(notes, not) {
				t.Errorf("%s: the notes contain %q:\n%s", name, not, notes)
			}
		}
	}
}
