"""The door: who are you > may you > wait your turn > which engine > stream > book it. Never reaches torch."""
