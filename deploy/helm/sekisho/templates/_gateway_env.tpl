{{/* What stands in the secret, and Redis. All but server.key may be missing there. */}}
{{- define "sekisho.gatewayEnv" -}}
{{- $secret := include "sekisho.secret" . -}}
{{- $gateway := .Values.gateway }}
# Variables, so that the command line in this container has them too.
- {name: SEKISHO_DATA_DIR, value: /var/lib/sekisho}
- {name: SEKISHO_REPLICAS, value: {{ ternary $gateway.autoscaling.maxReplicas $gateway.replicas $gateway.autoscaling.enabled | quote }}}
- name: SEKISHO_REDIS_URL
  {{- if .Values.valkey.enabled }}
  value: redis://{{ include "sekisho.part" (list . "valkey") }}:6379/0
  {{- else }}
  value: {{ .Values.externalRedis.url | required "externalRedis.url: expected where Redis is, for valkey.enabled is false" | quote }}
  {{- end }}
{{- range $name, $key := dict "SEKISHO_REDIS_PASSWORD" "redis-password" "SEKISHO_REDIS_SENTINEL_PASSWORD" "redis-sentinel-password" "SEKISHO_BOOTSTRAP_KEY" "bootstrap-key" "SEKISHO_OPEN_WEBUI_SECRET" "open-webui-secret" }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ $key }}, optional: true}}
{{- end }}
{{- with .Values.gateway.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}
