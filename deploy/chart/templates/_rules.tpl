{{/*
The permissions of each component. They are those of deploy/10-rbac.yaml, which describes them; a test compares them.
*/}}
{{- define "podfit.rules.recommender" }}
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [events, limitranges, namespaces, nodes, pods]
  verbs: [list, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers/status]
  verbs: [patch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalercheckpoints]
  verbs: [create, delete, get, list, patch]
- apiGroups: [podfit.dev]
  resources: [usagehistories]
  verbs: [create, delete, get, list, patch]
- apiGroups: [podfit.dev]
  resources: [capacityplans]
  verbs: [create]
- apiGroups: [podfit.dev]
  resources: [capacityplans]
  resourceNames: [cluster]
  verbs: [get]
- apiGroups: [podfit.dev]
  resources: [capacityplans/status]
  resourceNames: [cluster]
  verbs: [patch]
- apiGroups: [podfit.dev]
  resources: [sizingprofiles]
  verbs: [list]
{{- include "podfit.rules.growth" . }}
{{- include "podfit.rules.owners" . }}
{{- end }}

{{- define "podfit.rules.updater" }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, patch, watch]
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [""]
  resources: [limitranges, namespaces, resourcequotas]
  verbs: [list, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers/status]
  verbs: [patch]
- apiGroups: [podfit.dev]
  resources: [updatestates]
  verbs: [create, delete, get, list, patch]
- apiGroups: [podfit.dev]
  resources: [sizingprofiles]
  verbs: [list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [vpa-admission-controller]
  verbs: [get]
{{- include "podfit.rules.growth" . }}
{{- include "podfit.rules.owners" . }}
{{- end }}

{{- define "podfit.rules.admissionController" }}
- apiGroups: [""]
  resources: [limitranges, nodes, resourcequotas]
  verbs: [list, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [podfit.dev]
  resources: [sizingprofiles, updatestates]
  verbs: [list, watch]
{{- if include "podfit.registers" . }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations]
  resourceNames: [vpa-webhook-config]
  verbs: [get, patch]
{{- end }}
{{- include "podfit.rules.growth" . }}
{{- include "podfit.rules.owners" . }}
{{- end }}

{{- define "podfit.rules.growth" }}
- apiGroups: [karpenter.sh]
  resources: [nodepools]
  verbs: [list]
- apiGroups: [cluster.x-k8s.io]
  resources: [machinedeployments]
  verbs: [list]
{{- end }}

{{- define "podfit.rules.owners" }}
- apiGroups: ["*"]
  resources: ["*/scale"]
  verbs: [get]
- apiGroups: [""]
  resources: [replicationcontrollers]
  verbs: [get, list, watch]
- apiGroups: [apps]
  resources: [daemonsets, deployments, replicasets, statefulsets]
  verbs: [get, list, watch]
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: [get, list, watch]
{{- end }}

{{/*
The folders of deploy/rights, by the value that adds the right.
*/}}
{{- define "podfit.rights" }}
placeholders: placeholders
provisioningRequests: provisioning-requests
oomRescue: oom-rescue
surges: surges
hpaTargets: hpa-targets
apiServerMetrics: api-server-metrics
nodeGuard: node-guard
nodeGroups: node-groups
namespaceOptIn: namespace-opt-in
kubeletMetrics: kubelet-metrics
{{- end }}

{{/*
What the roles view, edit and admin of Kubernetes may read besides.
*/}}
{{- define "podfit.rules.view" }}
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalercheckpoints, verticalpodautoscalers]
  verbs: [get, list, watch]
- apiGroups: [podfit.dev]
  resources: [capacityplans, sizingprofiles, updatestates, usagehistories]
  verbs: [get, list, watch]
{{- end }}

{{/*
The permissions in podfit's own namespace.
*/}}
{{- define "podfit.ownRules.recommender" }}
{{- end }}

{{- define "podfit.ownRules.updater" }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [podfit-freeze]
  verbs: [list, watch]
{{- end }}

{{- define "podfit.ownRules.admissionController" }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [vpa-admission-controller]
  verbs: [get, update]
{{- if eq (include "podfit.certificates" .) "own" }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [vpa-tls-certs]
  verbs: [get, update]
{{- end }}
{{- end }}
