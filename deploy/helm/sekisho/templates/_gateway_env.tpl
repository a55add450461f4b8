{{/* What stands in the secret, and Redis. All but server.key may be missing there. */}}
{{- define "sekisho.gatewayEnv" -}}
{{- $secret := include "sekisho.secret" . -}}
{{- $gateway := .Values.gateway }}
# Variables, so that the command line in this container has them too.
- {name: SEKISHO_DATA_DIR, value: /var/lib/sekisho}
- {name: SEKISHO_REPLICAS, value: {{ ternary $gateway.autoscaling.maxReplicas $gateway.replicas $gateway.autoscaling.enabled | quote }}}
{{- if .Values.valkey.enabled }}
- name: REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: redis-password}}
- name: SEKISHO_REDIS_URL
  value: redis://:$(REDIS_PASSWORD)@{{ include "sekisho.part" (list . "valkey") }}:6379/0
{{- else if .Values.externalRedis.url }}
- {name: SEKISHO_REDIS_URL, value: {{ .Values.externalRedis.url | quote }}}
{{- else }}
- name: SEKISHO_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: redis-url}}
{{- end }}
{{- range $name, $key := dict "SEKISHO_BOOTSTRAP_KEY" "bootstrap-key" "SEKISHO_OPEN_WEBUI_SECRET" "open-webui-secret" }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ $key }}, optional: true}}
{{- end }}
{{- with .Values.gateway.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}
