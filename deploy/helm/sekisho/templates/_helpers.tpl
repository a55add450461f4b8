{{/* Names, labels and what all pods have in common. */}}

{{- define "sekisho.name" -}}
{{- $own := .Values.nameOverride | default .Chart.Name -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $own) (contains $own .Release.Name) | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{/* Called with (list . component): sekisho-gateway */}}
{{- define "sekisho.part" -}}
{{- printf "%s-%s" (include "sekisho.name" (first .)) (last .) -}}
{{- end -}}

{{- define "sekisho.selector" -}}
app.kubernetes.io/name: {{ (first .).Chart.Name }}
app.kubernetes.io/instance: {{ (first .).Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end -}}

{{- define "sekisho.labels" -}}
{{- $root := first . -}}
{{ include "sekisho.selector" . }}
app.kubernetes.io/part-of: sekisho
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{/* Called with (list . image): by digest where one is given. */}}
{{- define "sekisho.image" -}}
{{- $root := first . -}}
{{- with last . -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $root.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sekisho.secret" -}}
{{- .Values.existingSecret | required "existingSecret: expected the name of a Secret with server.key, and redis-password where valkey.enabled; README.md says how to make it" -}}
{{- end -}}

{{/* What the Pod Security Standard "restricted" asks for, and a little more. */}}
{{- define "sekisho.podSecurity" -}}
serviceAccountName: {{ include "sekisho.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "sekisho.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  privileged: false
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Called with (list . component): replicas of one kind lie on different machines where there are several. */}}
{{- define "sekisho.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "sekisho.selector" . | nindent 8 }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "sekisho.selector" . | nindent 8 }}
{{- end -}}

{{/* Called with the values of a part; begins with a line break where there is anything. */}}
{{- define "sekisho.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Engines of this release: each by its own name, so that the gateway sees the load of each and keeps like prompts together. Those that
autoscaling may add are named already; one that is not there is `down`, and is not asked. */}}
{{- define "sekisho.engines" -}}
{{- $name := include "sekisho.part" (list . "engine") -}}
{{- $engine := .Values.engine -}}
{{- $count := ternary $engine.autoscaling.maxReplicas $engine.replicas $engine.autoscaling.enabled -}}
{{- range $number := until (int $count) }}
- name: engine-{{ $number }}
  kind: native
  url: http://{{ $name }}-{{ $number }}.{{ $name }}.{{ $.Release.Namespace }}.svc:8000
  max_concurrency: {{ $engine.maxNumSeqs }}
{{- end }}
{{- end -}}

{{/* The settings file: yours, and over them what only the chart knows. */}}
{{- define "sekisho.settings" -}}
{{- $own := dict "host" "0.0.0.0" "port" 8080 "metrics_host" "0.0.0.0" "metrics_port" 9464 "drain_seconds" .Values.gateway.drainSeconds -}}
{{- if .Values.gateway.filesClaim -}}{{- $_ := set $own "files_dir" "/var/lib/sekisho-files" -}}{{- end -}}
{{- $engines := list -}}
{{- if .Values.engine.enabled -}}{{- $engines = include "sekisho.engines" . | fromYamlArray -}}{{- end -}}
{{- with concat $engines (.Values.settings.backends | default list) -}}{{- $_ := set $own "backends" . -}}{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.settings) $own) -}}
{{- end -}}
